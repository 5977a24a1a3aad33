// SPDX-License-Identifier: Apache-2.0
#include "cli/net.h"

#include "base/mem.h"
#include "base/str.h"
#include "cli/api.h"
#include "cli/out.h"
#include "model/policy.h"
#include <string.h>

static int check_rules(const char *option, char *const *rules, bool deny, struct err *e)
{
	for (; rules && *rules; rules++) {
		struct rule r;
		auto_free char *text = deny && **rules != '!' ? xasprintf("!%s", *rules) : xstrdup(*rules);
		if (rule_parse(text, option, &r, e))
			return err_wrap(e, "%s %.100s", option, *rules);
		bool wrong = r.deny != deny;
		rule_done(&r);
		if (wrong)
			return err_set(e, ERR_INVALID, "%s %.100s: use --deny for a rule that denies", option, *rules);
	}
	return 0;
}

int net_check(const struct net_opts *o, struct err *e)
{
	struct policy p = {0};
	int rc = o->preset ? preset_add(&p, o->preset, NULL, e) : 0;
	policy_done(&p);
	if (rc)
		return err_wrap(e, "--net %.60s", o->preset);
	for (char **s = o->secrets; s && *s; s++)
		if (!secret_name_is(*s))
			return err_set(e, ERR_INVALID, "--secret %.100s: not the name of a secret", *s);
	return check_rules("--allow", o->allow, false, e) || check_rules("--deny", o->deny, true, e) ? -1 : 0;
}

bool net_names_registries(const struct net_opts *o)
{
	struct str rest = str_of(o->preset ? o->preset : ""), part;
	while (str_next(&rest, ',', &part))
		if (str_is(part, "registries"))
			return true;
	return false;
}

static void put_list(struct jsonw *w, const char *key, char *const *v)
{
	if (v)
		jw_kstrv(w, key, v);
}

void net_put(struct jsonw *w, const struct net_opts *o, char *const *registries)
{
	jw_kstr(w, "net", o->preset);
	put_list(w, "allow", o->allow);
	put_list(w, "deny", o->deny);
	put_list(w, "secrets", o->secrets);
	put_list(w, "expose_host", o->expose);
	put_list(w, "registries", registries);
	if (o->ask)
		jw_kbool(w, "ask", true);
}

bool net_needs_registries(const struct err *e)
{
	return e->kind == ERR_CONFLICT && e->sys == API_NEEDS_REGISTRIES;
}

void net_notices(const json_t *answer)
{
	auto_buf struct buf b = BUF_INIT(64 << 10);
	size_t i;
	json_t *v;
	json_array_foreach(json_object_get(answer, "notices"), i, v)
	{
		buf_str(&b, "skep: ");
		out_text(&b, json_string_value(v) ? json_string_value(v) : "");
		buf_byte(&b, '\n');
	}
	out_stderr(&b);
}
