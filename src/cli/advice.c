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

#define HOSTS_NAMED 4
#define JOURNAL_MOST (4u << 20) // looked through: advice must not take longer than the command did

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

void advice_refused(const struct create_opts *o, const char *id)
{
	struct err ignored;
	struct wants all = {0};
	auto_api struct api a = API_CLOSED;
	auto_buf struct buf b = BUF_INIT(16 << 10);
	size_t hosts = 0;
	if (o->net.ask || (o->net.preset && !strcmp(o->net.preset, "none"))) // then that was the answer
		return;
	bool read = !api_open(&a, &ignored) && !wants_read(&all, &a, id, JOURNAL_MOST, &ignored);
	buf_str(&b, "skep: refused: ");
	for (size_t i = 0; read && i < all.n; i++) {
		if (is_named_before(&all, i) || ++hosts > HOSTS_NAMED)
			continue;
		buf_str(&b, hosts > 1 ? ", " : "");
		out_text(&b, all.w[i].host.s);
	}
	buf_str(&b, hosts > HOSTS_NAMED ? ", \xe2\x80\xa6" : "");
	buf_fmt(&b, ". Run it with --allow HOST%s (skep policy suggest %s)\n",
		o->net.preset ? "" : ", or --net registries for what package managers fetch", id);
	if (hosts)
		out_stderr(&b);
	else
		tell_address(&all, id);
	wants_done(&all);
}
