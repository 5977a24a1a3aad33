// SPDX-License-Identifier: Apache-2.0
// What becomes of a project or config once it is read: its end, its effect in words, its rules in a policy.
#include "model/project.h"

#include "base/jsonw.h"
#include "base/mem.h"
#include <stdlib.h>

static void net_part_done(struct net_part *n)
{
	free(n->preset);
	strv_free(n->allow);
	strv_free(n->deny);
	*n = (struct net_part){0};
}

void project_done(struct project *p)
{
	free(p->image);
	strv_free(p->setup);
	strv_free(p->setup_files);
	strv_free(p->env);
	strv_free(p->hide);
	free(p->test);
	free(p->ws_path);
	strv_free(p->left_out);
	net_part_done(&p->wishes.net);
	net_part_done(&p->wishes.setup_net);
	strv_free(p->wishes.secrets);
	strv_free(p->wishes.mounts);
	strv_free(p->wishes.env);
	*p = (struct project){0};
}

void config_done(struct config *c)
{
	net_part_done(&c->net);
	free(c->resolver);
	free(c->ca_file);
	strv_free(c->image_mirrors);
	strv_free(c->image_insecure);
	strv_free(c->listen);
	strv_free(c->public_urls);
	*c = (struct config){0};
}

bool net_part_says(const struct net_part *n)
{
	return n->preset || n->allow || n->deny || n->has_ask;
}

static bool has_limits(const struct limit_wish *w)
{
	for (int k = 0; k < LIMIT_KEYS; k++)
		if (w->set[k])
			return true;
	return false;
}

bool project_has_wishes(const struct project *p)
{
	const struct project_wishes *w = &p->wishes;
	return net_part_says(&w->net) || net_part_says(&w->setup_net) || w->secrets || w->mounts || w->env || has_limits(&w->limits);
}

static int add_rules(struct policy *p, char *const *rules, const char *from, struct err *e)
{
	for (size_t i = 0; rules && rules[i]; i++)
		if (policy_add_text(p, rules[i], from, e))
			return -1;
	return 0;
}

int net_add(struct policy *p, const struct net_part *net, const char *from, char *const *registries, struct err *e)
{
	size_t before = p->n;
	bool open_before = p->open_all;
	if ((net->preset && preset_add(p, net->preset, registries, e)) || add_rules(p, net->allow, from, e) ||
	    add_rules(p, net->deny, from, e)) {
		while (p->n > before)
			rule_done(&p->rules[--p->n]);
		p->open_all = open_before;
		return -1;
	}
	if (net->has_ask)
		p->ask = net->ask;
	return 0;
}

static void net_json(struct jsonw *w, const char *key, const struct net_part *n)
{
	if (!net_part_says(n))
		return;
	jw_key(w, key);
	jw_open(w, '{');
	jw_kstr(w, "preset", n->preset);
	if (n->allow)
		jw_kstrv(w, "allow", n->allow);
	if (n->deny)
		jw_kstrv(w, "deny", n->deny);
	if (n->has_ask)
		jw_kbool(w, "ask", n->ask);
	jw_close(w, '}');
}

static void limits_json(struct jsonw *w, const struct limit_wish *l)
{
	if (!has_limits(l))
		return;
	jw_key(w, "limits");
	jw_open(w, '{');
	for (int k = 0; k < LIMIT_KEYS; k++)
		if (l->set[k])
			jw_ku64(w, limit_key_name(k), l->value[k]);
	jw_close(w, '}');
}

static void list_json(struct jsonw *w, const char *key, char *const *v)
{
	if (v)
		jw_kstrv(w, key, v);
}

static void now_json(struct jsonw *w, const struct project *p)
{
	jw_kstr(w, "image", p->image);
	list_json(w, "setup", p->setup);
	list_json(w, "setup_files", p->setup_files);
	list_json(w, "env", p->env);
	if (p->n_ports) {
		jw_key(w, "ports");
		jw_open(w, '[');
		for (size_t i = 0; i < p->n_ports; i++)
			jw_u64(w, p->ports[i]);
		jw_close(w, ']');
	}
	list_json(w, "hide", p->hide);
	jw_kstr(w, "test", p->test);
	jw_kstr(w, "workspace_path", p->ws_path);
	list_json(w, "never", p->left_out);
	limits_json(w, &p->limits);
}

void project_json(struct buf *b, const struct project *p)
{
	struct jsonw w = {b, false};
	jw_open(&w, '{');
	jw_key(&w, "now");
	jw_open(&w, '{');
	now_json(&w, p);
	jw_close(&w, '}');
	jw_key(&w, "after_trust");
	jw_open(&w, '{');
	net_json(&w, "net", &p->wishes.net);
	net_json(&w, "setup_net", &p->wishes.setup_net);
	list_json(&w, "secrets", p->wishes.secrets);
	list_json(&w, "mounts", p->wishes.mounts);
	list_json(&w, "env", p->wishes.env);
	limits_json(&w, &p->wishes.limits);
	jw_close(&w, '}');
	jw_close(&w, '}');
}
