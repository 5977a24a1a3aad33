// SPDX-License-Identifier: Apache-2.0
// What a project file may say: tables of keys, one reader per shape of value.
#include "model/project_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "model/glob.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define IMAGE_TEXT 256
#define HIDE_GLOBS 256

int field_fault(const struct node *n, const char *what, struct err *e)
{
	return err_set(e, ERR_INVALID, "line %u: %s", n->line, what);
}

bool node_is_null(const struct node *n)
{
	return !n ||
	       (n->kind == NODE_TEXT && n->plain && (!*n->text || !strcmp(n->text, "~") || !strcmp(n->text, "null")));
}

static int unknown_key(const struct node *n, const struct field *f, size_t count, struct err *e)
{
	auto_buf struct buf known = BUF_INIT(300);
	size_t len = strlen(n->key),
	       word = strspn(n->key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
	for (size_t i = 0; i < count; i++)
		buf_fmt(&known, "%s%s", i ? ", " : "", f[i].key);
	return err_set(e, ERR_INVALID, "line %u: unknown key %s; known here: %s", n->line,
		       len && len == word && len < 60 ? n->key : "(not a word)", buf_cstr(&known));
}

int field_read_map(const struct node *map, const struct field *f, size_t count, void *base, struct err *e)
{
	if (map->kind != NODE_MAP)
		return field_fault(map, "keys with values are wanted here", e);
	for (const struct node *n = map->first; n; n = n->next) {
		size_t i = 0;
		while (i < count && strcmp(f[i].key, n->key))
			i++;
		if (i == count)
			return unknown_key(n, f, count, e);
		if (!node_is_null(n) && f[i].read(n, (char *)base + f[i].offset, e))
			return -1;
	}
	return 0;
}

int field_read_text(const struct node *n, void *out, struct err *e)
{
	if (n->kind != NODE_TEXT || !*n->text)
		return field_fault(n, "one text is wanted here", e);
	*(char **)out = xstrdup(n->text);
	return 0;
}

static int read_image(const struct node *n, void *out, struct err *e)
{
	if (n->kind == NODE_TEXT && strlen(n->text) > IMAGE_TEXT)
		return field_fault(n, "the image's name is too long", e);
	return field_read_text(n, out, e);
}

static int read_bool(const struct node *n, bool *out, struct err *e)
{
	bool yes = n->kind == NODE_TEXT && !strcmp(n->text, "true");
	if (!yes && (n->kind != NODE_TEXT || strcmp(n->text, "false")))
		return field_fault(n, "true or false is wanted here", e);
	*out = yes;
	return 0;
}

// A list, or a single text standing for a list of one. add checks each and puts it where it belongs.
static int each(const struct node *n, int (*add)(const struct node *item, void *out, struct err *e), void *out,
		struct err *e)
{
	if (n->kind == NODE_MAP)
		return field_fault(n, "a list is wanted here", e);
	if (n->kind == NODE_TEXT)
		return add(n, out, e);
	for (const struct node *item = n->first; item; item = item->next) {
		if (item->kind != NODE_TEXT || !*item->text)
			return field_fault(item, "one text is wanted here", e);
		if (add(item, out, e))
			return -1;
	}
	return 0;
}

static int add_text(const struct node *n, void *out, struct err *e)
{
	if (!*n->text)
		return field_fault(n, "one text is wanted here", e);
	strv_add(out, n->text);
	return 0;
}

int field_read_texts(const struct node *n, void *out, struct err *e)
{
	return each(n, add_text, out, e);
}

// Below the project, in the one spelling that means only that.
static int add_path(const struct node *n, void *out, struct err *e)
{
	struct str rest = str_of(n->text), part;
	rest.n -= str_has_suffix(n->text, "/"); // a directory may be written as one
	while (str_next(&rest, '/', &part))
		if (!part.n || str_is(part, ".") || str_is(part, ".."))
			return field_fault(n, "a path below the project is wanted here, without '.', '..' or a leading '/'",
				     e);
	auto_free char *path = xstrndup(n->text, strlen(n->text) - str_has_suffix(n->text, "/"));
	strv_add(out, path);
	return 0;
}

static int read_paths(const struct node *n, void *out, struct err *e)
{
	return each(n, add_path, out, e);
}

static int add_glob(const struct node *n, void *out, struct err *e)
{
	if (strv_len(*(char ***)out) >= HIDE_GLOBS)
		return field_fault(n, "too many globs", e);
	if (add_path(n, out, e))
		return -1;
	char **all = *(char ***)out;
	return glob_is_valid(all[strv_len(all) - 1]) ? 0 : field_fault(n, "the glob has too many parts", e);
}

static int read_globs(const struct node *n, void *out, struct err *e)
{
	return each(n, add_glob, out, e);
}

static int add_mount(const struct node *n, void *out, struct err *e)
{
	if (n->text[0] != '/' && n->text[0] != '~')
		return field_fault(n, "a mount is an absolute DIR[:PATH][:ro]", e);
	strv_add(out, n->text);
	return 0;
}

static int read_mounts(const struct node *n, void *out, struct err *e)
{
	return each(n, add_mount, out, e);
}

static int add_secret(const struct node *n, void *out, struct err *e)
{
	if (!secret_name_is(n->text))
		return field_fault(n, "a secret's name has letters, digits and '_', and starts with no digit", e);
	strv_add(out, n->text);
	return 0;
}

static int read_secrets(const struct node *n, void *out, struct err *e)
{
	return each(n, add_secret, out, e);
}

static int put_env(const struct node *n, const char *key, size_t len, const char *value, char ***out, struct err *e)
{
	auto_free char *name = xstrndup(key, len);
	auto_free char *pair = xasprintf("%s=%s", name, value);
	if (!secret_name_is(name))
		return field_fault(n, "a variable's name has letters, digits and '_', and starts with no digit", e);
	strv_add(out, pair);
	return 0;
}

static int add_pair(const struct node *n, void *out, struct err *e)
{
	const char *eq = strchr(n->text, '=');
	return eq ? put_env(n, n->text, (size_t)(eq - n->text), eq + 1, out, e) : field_fault(n, "K=V is wanted here", e);
}

static int read_env(const struct node *n, void *out, struct err *e)
{
	if (n->kind != NODE_MAP)
		return each(n, add_pair, out, e);
	for (const struct node *v = n->first; v; v = v->next)
		if (v->kind != NODE_TEXT)
			return field_fault(v, "one text is wanted here", e);
		else if (put_env(v, v->key, strlen(v->key), node_is_null(v) ? "" : v->text, out, e))
			return -1;
	return 0;
}

static int add_port(const struct node *n, void *out, struct err *e)
{
	struct project *p = out;
	struct err why;
	if (p->n_ports == PROJECT_PORTS || port_parse(n->text, strlen(n->text), &p->ports[p->n_ports], &why))
		return field_fault(n, "ports are numbers from 1 to 65535, at most 32 of them", e);
	p->n_ports++;
	return 0;
}

static int read_ports(const struct node *n, void *out, struct err *e)
{
	return each(n, add_port, out, e);
}

static int add_rule(const struct node *n, char ***out, bool deny, struct err *e)
{
	struct rule r;
	auto_free char *text = xasprintf("%s%s", deny ? "!" : "", n->text);
	if (rule_parse(text, "", &r, e))
		return err_wrap(e, "line %u", n->line);
	bool wrong = r.deny != deny;
	rule_done(&r);
	if (wrong)
		return field_fault(n, "a rule with '!' stands under deny, without it", e);
	strv_add(out, text);
	return 0;
}

static int add_allow(const struct node *n, void *out, struct err *e)
{
	return add_rule(n, out, false, e);
}

static int add_deny(const struct node *n, void *out, struct err *e)
{
	return add_rule(n, out, true, e);
}

static int read_allow(const struct node *n, void *out, struct err *e)
{
	return each(n, add_allow, out, e);
}

static int read_deny(const struct node *n, void *out, struct err *e)
{
	return each(n, add_deny, out, e);
}

static int add_preset(const struct node *n, void *out, struct err *e)
{
	struct policy scratch = {0};
	char **preset = out;
	auto_free char *joined = *preset ? xasprintf("%s,%s", *preset, n->text) : xstrdup(n->text);
	int rc = preset_add(&scratch, joined, NULL, e);
	policy_done(&scratch);
	if (rc)
		return err_wrap(e, "line %u", n->line);
	free(*preset);
	*preset = take(&joined);
	return 0;
}

static int read_preset(const struct node *n, void *out, struct err *e)
{
	return each(n, add_preset, out, e);
}

static int read_ask(const struct node *n, void *out, struct err *e)
{
	struct net_part *net = out;
	net->has_ask = true;
	return read_bool(n, &net->ask, e);
}

static const struct field net_fields[] = {
	{"preset", read_preset, offsetof(struct net_part, preset)},
	{"allow", read_allow, offsetof(struct net_part, allow)},
	{"deny", read_deny, offsetof(struct net_part, deny)},
	{"ask", read_ask, 0},
};

int field_read_net(const struct node *n, void *out, struct err *e)
{
	struct net_part *net = out;
	return n->kind == NODE_MAP ? field_read_map(n, net_fields, countof(net_fields), net, e)
				   : read_preset(n, &net->preset, e);
}

static int to_count(const char *s, uint64_t *out)
{
	return str_to_u64(str_of(s), 0, UINT32_MAX, out);
}

static const struct {
	const char *name;
	int (*parse)(const char *s, uint64_t *out);
} limit_keys[] = {
	[LIMIT_CPUS] = {"cpus", str_to_milli},
	[LIMIT_MEMORY] = {"memory", str_to_size},
	[LIMIT_DISK] = {"disk", str_to_size},
	[LIMIT_PIDS] = {"pids", to_count},
	[LIMIT_FILES] = {"files", to_count},
	[LIMIT_NOFILE] = {"nofile", to_count},
	[LIMIT_OUTPUT_CAP] = {"output_cap", str_to_size},
	[LIMIT_TIMEOUT] = {"timeout", str_to_duration_ms},
	[LIMIT_TTL] = {"ttl", str_to_duration_ms},
	[LIMIT_IDLE] = {"idle", str_to_duration_ms},
};
static_assert(countof(limit_keys) == LIMIT_KEYS, "a row per limit");

const char *limit_key_name(enum limit_key k)
{
	return k < LIMIT_KEYS ? limit_keys[k].name : "?";
}

static int read_limit(const struct node *n, struct limit_wish *w, struct err *e)
{
	for (int k = 0; k < LIMIT_KEYS; k++) {
		if (strcmp(limit_keys[k].name, n->key))
			continue;
		if (n->kind != NODE_TEXT || limit_keys[k].parse(n->text, &w->value[k]))
			return field_fault(n, "a limit is written as on the command line: 2g, 1.5, 512, 10m", e);
		w->set[k] = true;
		return 0;
	}
	return field_fault(n, "unknown limit; known: cpus memory disk pids files nofile output_cap timeout ttl idle", e);
}

int field_read_limits(const struct node *n, void *out, struct err *e)
{
	if (n->kind != NODE_MAP)
		return field_fault(n, "keys with values are wanted here", e);
	for (const struct node *v = n->first; v; v = v->next)
		if (!node_is_null(v) && read_limit(v, out, e))
			return -1;
	return 0;
}

static int read_setup_net(const struct node *n, void *out, struct err *e)
{
	return field_read_net(n, &((struct project *)out)->wishes.setup_net, e);
}

static const struct field setup_fields[] = {
	{"run", field_read_texts, offsetof(struct project, setup)},
	{"files", read_paths, offsetof(struct project, setup_files)},
	{"net", read_setup_net, 0},
};

static int read_setup(const struct node *n, void *out, struct err *e)
{
	struct project *p = out;
	return n->kind == NODE_MAP ? field_read_map(n, setup_fields, countof(setup_fields), p, e)
				   : field_read_texts(n, &p->setup, e);
}

static const struct field project_fields[] = {
	{"image", read_image, offsetof(struct project, image)},
	{"setup", read_setup, 0},
	{"env", read_env, offsetof(struct project, env)},
	{"ports", read_ports, 0},
	{"hide", read_globs, offsetof(struct project, hide)},
	{"test", field_read_text, offsetof(struct project, test)},
	{"net", field_read_net, offsetof(struct project, wishes.net)},
	{"secrets", read_secrets, offsetof(struct project, wishes.secrets)},
	{"mounts", read_mounts, offsetof(struct project, wishes.mounts)},
	{"limits", field_read_limits, offsetof(struct project, limits)},
};

// 0 is no limit, so it is above every default but 0.
static bool is_above(enum limit_key k, uint64_t v)
{
	const struct limits d = LIMITS_DEFAULT;
	const uint64_t defaults[LIMIT_KEYS] = {
		[LIMIT_CPUS] = d.cpus_milli,
		[LIMIT_MEMORY] = d.memory,
		[LIMIT_DISK] = d.disk,
		[LIMIT_PIDS] = d.pids,
		[LIMIT_FILES] = d.files,
		[LIMIT_NOFILE] = d.nofile,
		[LIMIT_OUTPUT_CAP] = d.output_cap,
	};
	return defaults[k] && (!v || v > defaults[k]);
}

static void split_limits(struct project *p)
{
	for (int k = 0; k < LIMIT_KEYS; k++)
		if (p->limits.set[k] && is_above(k, p->limits.value[k])) {
			p->wishes.limits.set[k] = true;
			p->wishes.limits.value[k] = p->limits.value[k];
			p->limits.set[k] = false;
			p->limits.value[k] = 0;
		}
}

static void split_env(struct project *p)
{
	char **all = take(&p->env);
	for (char **v = all; v && *v; v++)
		strv_add(env_is_helper(*v) ? &p->wishes.env : &p->env, *v);
	strv_free(all);
}

int project_from(const struct node *root, struct project *out, struct err *e)
{
	struct project p = {0};
	if (!node_is_null(root) && field_read_map(root, project_fields, countof(project_fields), &p, e)) {
		project_done(&p);
		return -1;
	}
	split_limits(&p);
	split_env(&p);
	*out = p;
	return 0;
}
