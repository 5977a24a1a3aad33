// SPDX-License-Identifier: Apache-2.0
#include "cli/advice.h"

#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cli/home.h"
#include "cli/out.h"
#include "cli/wants.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOSTS_NAMED 4
#define JOURNAL_MOST (4u << 20) // looked through: advice must not take longer than the command did

bool advice_is_wanted(void)
{
	const char *want = getenv("SKEP_SUMMARY");
	return isatty(STDERR_FILENO) || (want && !strcmp(want, "always"));
}

void advice_missing(const char *command)
{
	auto_free char *here = strchr(command, '/') || home_remote() ? NULL : proc_find(getenv("PATH"), command);
	auto_buf struct buf b = BUF_INIT(16 << 10);
	if (!here)
		return;
	buf_str(&b, "skep: here it is ");
	out_text(&b, here);
	buf_str(&b, ", in a directory that is not shown inside: give --mount ");
	out_text_n(&b, here, strlen(here) - strlen(command) - 1);
	buf_str(&b, " and call it by its path\n");
	out_stderr(&b);
}

static bool is_named_before(const struct wants *all, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (host_equal(&all->w[k].host, &all->w[i].host))
			return true;
	return false;
}

// No host was named: then an address that was dialled as it is. Datagrams are not worth a line: much tries them in vain.
static void tell_address(const struct wants *all, const char *id)
{
	auto_buf struct buf b = BUF_INIT(16 << 10);
	char **o = all->others;
	while (o && *o && !str_has_prefix(*o, "tcp "))
		o++;
	if (!o || !*o)
		return;
	buf_str(&b, "skep: refused: ");
	out_text(&b, *o);
	buf_fmt(&b, " (skep policy suggest %s)\n", id);
	out_stderr(&b);
}

// The presets that allow it, as far as one would choose them for one host.
static const char *preset_of(const struct host_name *h)
{
	static const char *const names[] = {"llm", "git"};
	const char *found = NULL;
	for (size_t i = 0; i < countof(names) && !found; i++) {
		struct policy p = {0};
		struct err ignored;
		if (!preset_add(&p, names[i], NULL, &ignored) &&
		    policy_judge(&p, &(struct request){h, 443, "GET", "/"}, NULL) == VERDICT_ALLOW)
			found = names[i];
		policy_done(&p);
	}
	return found;
}

static const char *address_of(const struct wants *all, const struct host_name *h)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->w[i].address && host_equal(&all->w[i].host, h))
			return all->w[i].address;
	return NULL;
}

struct refused {
	struct buf hosts;
	size_t n, others;
	bool llm, git;
};

static void refused_add(struct refused *r, const struct host_name *h)
{
	const char *preset = preset_of(h);
	if (!preset)
		r->others++;
	else if (!strcmp(preset, "llm"))
		r->llm = true;
	else
		r->git = true;
	if (++r->n > HOSTS_NAMED)
		return;
	buf_str(&r->hosts, r->n > 1 ? ", " : "");
	out_text(&r->hosts, h->s);
}

// A name with a private address needs a rule that says so; its bare name would be refused again.
static void tell_private(const struct wants *all)
{
	auto_buf struct buf b = BUF_INIT(64 << 10);
	for (size_t i = 0; i < all->n; i++) {
		const struct want *w = &all->w[i];
		if (!w->address)
			continue;
		const char *brackets = strchr(w->address, ':') ? "[]" : "";
		buf_str(&b, "skep: refused: ");
		out_text(&b, w->host.s);
		buf_fmt(&b, " has the address %s, which is not public. Run it with --allow %s:%u=%.1s%s%.1s\n", w->address, w->host.s, w->port,
			brackets, w->address, *brackets ? brackets + 1 : "");
	}
	if (b.n)
		out_stderr(&b);
}

static void tell_hosts(const struct refused *r, const char *preset, const char *id, bool live)
{
	auto_buf struct buf b = BUF_INIT(16 << 10);
	buf_fmt(&b, "skep: refused: %s%s. ", buf_cstr((struct buf *)&r->hosts), r->n > HOSTS_NAMED ? ", \xe2\x80\xa6" : "");
	if (live)
		buf_fmt(&b, "Allow it with skep policy set %s --allow HOST", id);
	else if (!preset && (r->llm || r->git))
		buf_fmt(&b, "Run it with --net %s%s%s%s", r->llm ? "llm" : "", r->llm && r->git ? "," : "", r->git ? "git" : "",
			r->others ? " --allow HOST" : "");
	else
		buf_fmt(&b, "Run it with --allow HOST%s", preset ? "" : ", or --net registries for what package managers fetch");
	buf_fmt(&b, " (skep policy suggest %s)\n", id);
	out_stderr(&b);
}

static void advise(const char *preset, const char *id, const char *exec, bool live)
{
	struct err ignored;
	struct wants all = {0};
	auto_api struct api a = API_CLOSED;
	struct refused r = {.hosts = BUF_INIT(16 << 10)};
	bool read = !api_open(&a, &ignored) && !wants_read(&all, &a, id, exec, JOURNAL_MOST, &ignored);
	for (size_t i = 0; read && i < all.n; i++)
		if (!is_named_before(&all, i) && !address_of(&all, &all.w[i].host))
			refused_add(&r, &all.w[i].host);
	if (read)
		tell_private(&all);
	if (r.n)
		tell_hosts(&r, preset, id, live);
	else if (read)
		tell_address(&all, id);
	buf_done(&r.hosts);
	wants_done(&all);
}

void advice_refused(const struct create_opts *o, const char *id)
{
	if (!o->net.ask && !(o->net.preset && !strcmp(o->net.preset, "none"))) // then that was the answer
		advise(o->net.preset, id, NULL, false);
}

void advice_of_exec(const char *id, const char *exec)
{
	if (*id && *exec && advice_is_wanted())
		advise("", id, exec, true);
}
