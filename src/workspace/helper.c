// SPDX-License-Identifier: Apache-2.0
#include "workspace/helper.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

void helper_begin(mode_t umask_bits, enum helper_rights r)
{
	const struct rlimit no_core = {0, 0};
	setrlimit(RLIMIT_CORE, &no_core);
	if (r == HELPER_GAINS_NONE)
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	umask(umask_bits);
}

int helper_print(struct buf *line)
{
	buf_byte(line, '\n');
	return fputs(buf_cstr(line), stdout) < 0 || fflush(stdout) ? 1 : 0;
}

void helper_open_error(struct jsonw *w, const struct err *e)
{
	jw_open(w, '{');
	jw_key(w, "error");
	jw_open(w, '{');
	jw_kstr(w, "kind", err_kind_name(e->kind));
	jw_kstr(w, "message", e->msg);
}

int helper_fail(const struct err *e)
{
	auto_buf struct buf b = BUF_INIT(16 << 10);
	struct jsonw w = {.b = &b};
	helper_open_error(&w, e);
	jw_close(&w, '}');
	jw_close(&w, '}');
	helper_print(&b);
	return 1;
}
