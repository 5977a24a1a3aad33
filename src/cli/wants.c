// SPDX-License-Identifier: Apache-2.0
#include "cli/wants.h"

#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define WANTS_MAX 1000

static bool has(char *const *list, const char *s)
{
	for (; list && *list; list++)
		if (!strcmp(*list, s))
			return true;
	return false;
}

static bool same(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static struct want *want_of(struct wants *all, const struct host_name *host, uint16_t port, const char *method)
{
	for (size_t i = 0; i < all->n; i++)
		if (host_equal(&all->w[i].host, host) && all->w[i].port == port && same(all->w[i].method, method))
			return &all->w[i];
	if (all->n >= WANTS_MAX)
		return NULL;
	all->w = xrealloc(all->w, (all->n + 1) * sizeof *all->w);
	all->w[all->n] = (struct want){.host = *host, .port = port, .method = method ? xstrdup(method) : NULL};
	return &all->w[all->n++];
}

void wants_note(struct wants *all, char *owned)
{
	if (!has(all->others, owned) && strv_len(all->others) < WANTS_MAX)
		strv_add(&all->others, owned);
	free(owned);
}

static void note_name(struct wants *all, const json_t *ev)
{
	const char *name = json_str(ev, "name"), *method = json_str(ev, "method"), *path = json_str(ev, "path");
	struct host_name host;
	struct err ignored;
	uint64_t port = json_u64(ev, "port");
	if (port > UINT16_MAX || host_parse(name, strlen(name), &host, &ignored))
		return;
	if (*name == '_' && !port) // of a service (SRV), which a program asks for before the host itself
		return;
	struct want *w = want_of(all, &host, (uint16_t)port, *method ? method : NULL);
	if (!w)
		return;
	auto_free char *plain = xstrndup(path, strcspn(path, "?#"));
	if (*method && *plain == '/' && !has(w->paths, plain))
		strv_add(&w->paths, plain);
	if (!w->command && *json_str(ev, "command"))
		w->command = xstrdup(json_str(ev, "command"));
	w->times++;
}

// An address is told and not suggested: whoever has it today may not have it tomorrow.
static void note_address(struct wants *all, const char *proto, const char *address, uint64_t port)
{
	const char *brackets = strchr(address, ':') ? "[]" : "";
	auto_free char *at = xasprintf("%.1s%s%.1s:%llu", brackets, address, *brackets ? brackets + 1 : "", (unsigned long long)port);
	if (strcmp(proto, "tcp"))
		wants_note(all, xasprintf("%s %s was tried by address: only TCP can be allowed", proto, at));
	else
		wants_note(all, xasprintf("tcp %s was tried by address: allow the name, or --allow %s if the address is meant", at, at));
}

// The event says "the name has the address ADDRESS (KIND), which no rule names".
static void note_private(struct wants *all, const json_t *ev)
{
	const char *name = json_str(ev, "name"), *why = json_str(ev, "why"), *start = "the name has the address ";
	unsigned long long port = json_u64(ev, "port");
	struct host_name host;
	struct err ignored;
	bool known = str_has_prefix(why, start);
	const char *at = known ? why + strlen(start) : "ADDRESS";
	auto_free char *address = xstrndup(at, strcspn(at, " "));
	wants_note(all, xasprintf("%s has an address that is never reached unasked (%s): --allow %s:%llu=%s if that is meant", name, why, name,
				  port, address));
	if (!known || strstr(why, "denied by a rule") || port > UINT16_MAX || host_parse(name, strlen(name), &host, &ignored))
		return;
	struct want *w = want_of(all, &host, (uint16_t)port, NULL);
	if (w && !w->address)
		w->address = take(&address);
}

static void note_event(struct wants *all, const json_t *ev)
{
	const char *type = json_str(ev, "type"), *what = json_str(ev, "what"), *name = json_str(ev, "name");
	if (!strcmp(type, "net.request")) {
		if (!strcmp(json_str(ev, "verdict"), "deny"))
			note_name(all, ev);
		return;
	}
	if (strcmp(type, "denied"))
		return;
	if (!strcmp(what, "connect") && *name && !strcmp(name, json_str(ev, "address")))
		note_address(all, "tcp", name, json_u64(ev, "port"));
	else if (!strcmp(what, "dns") || !strcmp(what, "connect") || !strcmp(what, "policy"))
		note_name(all, ev);
	else if (!strcmp(what, "address"))
		note_private(all, ev);
	else if (!strcmp(what, "net") && *json_str(ev, "address"))
		note_address(all, json_str(ev, "proto"), json_str(ev, "address"), json_u64(ev, "port"));
	else if (!strcmp(what, "secret"))
		wants_note(all, xasprintf("secret %s was refused towards %s: it is bound to another host", json_str(ev, "secret"), name));
}

int wants_read(struct wants *all, struct api *a, const char *id, const char *exec, uint64_t most, struct err *e)
{
	for (uint64_t at = 0; !most || at < most;) {
		auto_http_reply struct http_reply r = {0};
		struct str rest, line;
		struct err ignored;
		int more = api_journal(a, id, 0, &at, &r, &rest, e);
		if (more <= 0)
			return more;
		while (str_next(&rest, '\n', &line)) {
			auto_json json_t *ev = json_read(line.p, line.n, &ignored);
			if (ev && (!exec || !strcmp(json_str(ev, "exec"), exec)))
				note_event(all, ev);
		}
	}
	return 0;
}

static void want_done(struct want *w)
{
	free(w->method);
	free(w->address);
	strv_free(w->paths);
	free(w->command);
}

void wants_drop(struct wants *all, size_t i)
{
	want_done(&all->w[i]);
	memmove(all->w + i, all->w + i + 1, (all->n - i - 1) * sizeof *all->w);
	all->n--;
}

void wants_done(struct wants *all)
{
	for (size_t i = 0; i < all->n; i++)
		want_done(&all->w[i]);
	free(all->w);
	strv_free(all->others);
}
