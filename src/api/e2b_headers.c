// SPDX-License-Identifier: Apache-2.0
// The part of E2B's network wishes that is about requests: headers that are set on the way out (rules), and the name under which
// a sandbox's ports are asked (maskRequestHost). Values of headers go to the engine, which seals them; what is kept to be shown
// has none.
#include "api/e2b_int.h"

#include "base/mem.h"
#include "model/name.h"
#include <string.h>

#define HIDDEN "***"
#define MASK_MAX 253

// --- rules: {"host": [{"transform": {"headers": {"Name": "value"}}}]} ---

static void drop_line(char **lines, const char *start)
{
	for (char **l = lines; l && *l; l++) {
		if (strncasecmp(*l, start, strlen(start)))
			continue;
		explicit_bzero(*l, strlen(*l));
		mem_free_ptr(l);
		for (char **next = l; (*next = next[1]); next++)
			;
		return;
	}
}

static int add_header(struct request *r, struct net_request *n, const char *host, const char *name, const json_t *value, struct err *e)
{
	if (!json_is_string(value))
		return err_set(e, ERR_INVALID, "network.rules: header %.60s for %.80s must be a string", name, host);
	if (strstr(json_string_value(value), "${vault:")) // our own form of what e2b_secrets_in puts there
		return err_set(e, ERR_INVALID, "network.rules: header %.60s for %.80s holds ${vault:, which can not be sent", name, host);
	if (strchr(name, '\t') || strchr(host, '\t'))
		return err_set(e, ERR_INVALID, "network.rules: malformed name of a host or a header");
	auto_free char *text = e2b_secrets_in(r, json_string_value(value), e);
	if (!text)
		return -1;
	auto_free char *start = xasprintf("%s\t%s\t", host, name);
	auto_free char *line = xasprintf("%s%s", start, text);
	drop_line(n->headers, start); // rules of one host are applied one after the other
	strv_add(&n->headers, line);
	explicit_bzero(line, strlen(line));
	explicit_bzero(text, strlen(text));
	return 0;
}

static int add_rule(struct request *r, struct net_request *n, const char *host, const json_t *rule, struct err *e)
{
	const json_t *transform = json_object_get(rule, "transform"), *headers = json_object_get(transform, "headers");
	const char *name;
	json_t *value;
	if (!json_is_object(rule) || (transform && !json_is_null(transform) && !json_is_object(transform)) ||
	    (headers && !json_is_null(headers) && !json_is_object(headers)))
		return err_set(e, ERR_INVALID, "network.rules: each rule of %.80s is {\"transform\": {\"headers\": {…}}}", host);
	json_object_foreach(headers, name, value)
	{
		if (add_header(r, n, host, name, value, e))
			return -1;
	}
	return 0;
}

int e2b_headers_read(struct request *r, const json_t *network, struct net_request *n, struct err *e)
{
	const json_t *rules = json_object_get(network, "rules");
	const char *host;
	json_t *list, *rule;
	size_t i;
	n->headers = xcalloc(1, sizeof *n->headers); // what is not said is cleared
	if (!rules || json_is_null(rules))
		return 0;
	if (!json_is_object(rules))
		return err_set(e, ERR_INVALID, "network.rules must map hosts to lists");
	json_object_foreach(rules, host, list)
	{
		if (!json_is_array(list))
			return err_set(e, ERR_INVALID, "network.rules: the rules of %.80s must be a list", host);
		json_array_foreach(list, i, rule)
		{
			if (add_rule(r, n, host, rule, e))
				return -1;
		}
	}
	return 0;
}

// --- what is shown ---

static void put_raw(struct jsonw *w, const char *key, const json_t *v)
{
	auto_buf struct buf text = BUF_INIT(LIMIT_REQUEST_BODY);
	json_print(&text, v, 0);
	jw_key(w, key);
	jw_raw(w, buf_cstr(&text));
}

static void put_rule(struct jsonw *w, const json_t *rule)
{
	const json_t *headers = json_object_get(json_object_get(rule, "transform"), "headers");
	const char *name;
	json_t *value;
	jw_open(w, '{');
	jw_key(w, "transform");
	jw_open(w, '{');
	jw_key(w, "headers");
	jw_open(w, '{');
	json_object_foreach(headers, name, value)
	{
		jw_kstr(w, name, HIDDEN);
	}
	jw_close(w, '}');
	jw_close(w, '}');
	jw_close(w, '}');
}

static void put_rules(struct jsonw *w, const json_t *rules)
{
	const char *host;
	json_t *list, *rule;
	size_t i;
	jw_key(w, "rules");
	jw_open(w, '{');
	json_object_foreach(rules, host, list)
	{
		jw_key(w, host);
		jw_open(w, '[');
		json_array_foreach(list, i, rule)
		{
			put_rule(w, rule);
		}
		jw_close(w, ']');
	}
	jw_close(w, '}');
}

static bool is_inwards(const char *key)
{
	return !strcmp(key, "allowPublicTraffic") || !strcmp(key, "maskRequestHost") || !strcmp(key, "httpsPorts");
}

// A change is about the way out: what was said of the way in stays.
void e2b_copy_network(const json_t *o, const json_t *network, struct e2b_box *b, bool change)
{
	struct err ignored;
	const json_t *internet = json_object_get(o, "allow_internet_access");
	auto_json json_t *before = change && b->network ? json_read(b->network, strlen(b->network), &ignored) : NULL;
	auto_buf struct buf text = BUF_INIT(LIMIT_REQUEST_BODY);
	struct jsonw w = {.b = &text};
	const char *key;
	json_t *v;
	b->has_internet = json_is_boolean(internet);
	b->internet = json_is_true(internet);
	mem_free_ptr(&b->network);
	b->network = NULL;
	if (!json_is_object(network))
		return;
	jw_open(&w, '{');
	json_object_foreach(network, key, v)
	{
		if (!strcmp(key, "rules"))
			put_rules(&w, v);
		else if (strcmp(key, "allow_internet_access") && !(change && is_inwards(key)))
			put_raw(&w, key, v);
	}
	json_object_foreach(before, key, v)
	{
		if (is_inwards(key))
			put_raw(&w, key, v);
	}
	jw_close(&w, '}');
	b->network = buf_take(&text);
}

// --- the name of its ports ---

char *e2b_mask_of(const char *mask, uint16_t port)
{
	static const char hole[] = "${PORT}";
	auto_buf struct buf b = BUF_INIT(MASK_MAX + 64);
	const char *at;
	for (; (at = strstr(mask, hole)); mask = at + strlen(hole)) {
		buf_add(&b, mask, (size_t)(at - mask));
		buf_fmt(&b, "%u", port);
	}
	buf_str(&b, mask);
	return buf_take(&b);
}

// It stands in a request's head: with any port it must be a host, with or without a port.
int e2b_mask_read(const json_t *network, char **out, struct err *e)
{
	const char *mask = NULL;
	struct host_name h;
	uint16_t port;
	if (json_get_str(network, "maskRequestHost", &mask, e))
		return err_wrap(e, "network");
	if (!mask || !*mask)
		return 0;
	if (strlen(mask) > MASK_MAX)
		return err_set(e, ERR_INVALID, "network.maskRequestHost is longer than %d bytes", MASK_MAX);
	auto_free char *some = e2b_mask_of(mask, 65535);
	if (host_port_parse(some, strlen(some), &h, &port, e))
		return err_wrap(e, "network.maskRequestHost");
	*out = xstrdup(mask);
	return 0;
}
