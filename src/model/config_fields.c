// SPDX-License-Identifier: Apache-2.0
// What the config file may say, beside what it shares with a project file.
#include "base/mem.h"
#include "base/str.h"
#include "model/imageref.h"
#include "model/project_int.h"
#include <arpa/inet.h>
#include <string.h>

static bool is_text(const struct node *n, const char *text)
{
	return n->kind == NODE_TEXT && !strcmp(n->text, text);
}

static int read_isolation(const struct node *n, void *out, struct err *e)
{
	struct config *c = out;
	c->has_strict = true;
	c->strict = is_text(n, "strict");
	return c->strict || is_text(n, "default") ? 0 : field_fault(n, "min_isolation is default or strict", e);
}

// ADDR[:PORT]; an IPv6 address stands in brackets.
static int read_resolver(const struct node *n, void *out, struct err *e)
{
	static const char wanted[] = "a resolver is an address, 192.0.2.1 or [2001:db8::1], with :PORT or without";
	unsigned char raw[16];
	uint16_t port = 53;
	struct err why;
	if (n->kind != NODE_TEXT)
		return field_fault(n, wanted, e);
	bool v6 = n->text[0] == '[';
	const char *start = n->text + v6, *end = start + strcspn(start, v6 ? "]" : ":"), *rest = end + (v6 && *end);
	auto_free char *address = xstrndup(start, (size_t)(end - start));
	if ((v6 && *end != ']') || inet_pton(v6 ? AF_INET6 : AF_INET, address, raw) != 1)
		return field_fault(n, wanted, e);
	if (*rest && (*rest != ':' || port_parse(rest + 1, strlen(rest + 1), &port, &why)))
		return field_fault(n, wanted, e);
	*(char **)out = xasprintf(v6 ? "[%s]:%u" : "%s:%u", address, port);
	return 0;
}

static int read_ca_file(const struct node *n, void *out, struct err *e)
{
	if (n->kind == NODE_TEXT && n->text[0] != '/')
		return field_fault(n, "ca_file is the absolute path of a PEM file", e);
	return field_read_text(n, out, e);
}

static int read_budget(const struct node *n, void *out, struct err *e)
{
	struct config *c = out;
	if (n->kind != NODE_TEXT || str_to_size(n->text, &c->budget))
		return field_fault(n, "disk_budget is a size, such as 50g", e);
	c->has_budget = true;
	return 0;
}

static int read_review_size(const struct node *n, void *out, struct err *e)
{
	if (n->kind != NODE_TEXT || str_to_size(n->text, out) || !*(uint64_t *)out)
		return field_fault(n, "review_bytes and review_free are sizes, such as 4g", e);
	return 0;
}

static int read_review_seconds(const struct node *n, void *out, struct err *e)
{
	if (n->kind != NODE_TEXT || str_to_u64(str_of(n->text), 1, 86400, out))
		return field_fault(n, "review_seconds is a number from 1 to 86400", e);
	return 0;
}

static int read_caches(const struct node *n, void *out, struct err *e)
{
	struct config *c = out;
	c->no_caches = is_text(n, "off");
	return c->no_caches || is_text(n, "on") ? 0 : field_fault(n, "caches is on or off", e);
}

static int read_git_user(const struct node *n, void *out, struct err *e)
{
	struct config *c = out;
	c->no_git_user = is_text(n, "off");
	return c->no_git_user || is_text(n, "on") ? 0 : field_fault(n, "git_user is on or off", e);
}

static int read_image_mirrors(const struct node *n, void *out, struct err *e)
{
	struct err why;
	if (field_read_texts(n, out, e))
		return -1;
	for (char **m = *(char ***)out; m && *m; m++)
		if (image_mirror_check(*m, &why))
			return field_fault(n, why.msg, e);
	return 0;
}

static const struct field config_fields[] = {
	{"net", field_read_net, offsetof(struct config, net)},
	{"limits", field_read_limits, offsetof(struct config, limits)},
	{"min_isolation", read_isolation, 0},
	{"caches", read_caches, 0},
	{"git_user", read_git_user, 0},
	{"resolver", read_resolver, offsetof(struct config, resolver)},
	{"ca_file", read_ca_file, offsetof(struct config, ca_file)},
	{"image_mirrors", read_image_mirrors, offsetof(struct config, image_mirrors)},
	{"image_insecure", field_read_texts, offsetof(struct config, image_insecure)},
	{"disk_budget", read_budget, 0},
	{"review_bytes", read_review_size, offsetof(struct config, review_bytes)},
	{"review_free", read_review_size, offsetof(struct config, review_free)},
	{"review_seconds", read_review_seconds, offsetof(struct config, review_seconds)},
	{"listen", field_read_texts, offsetof(struct config, listen)},
	{"public_url", field_read_texts, offsetof(struct config, public_urls)},
};

int config_from(const struct node *root, struct config *out, struct err *e)
{
	struct config c = {0};
	if (!node_is_null(root) && field_read_map(root, config_fields, countof(config_fields), &c, e)) {
		config_done(&c);
		return -1;
	}
	*out = c;
	return 0;
}
