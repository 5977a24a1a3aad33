// SPDX-License-Identifier: Apache-2.0
#include "cli/session.h"

#include "cli/hold.h"
#include "cli/out.h"
#include <signal.h>

int session_run(const struct call *c, const json_t *attach, struct pump_spec spec, struct pump_result *out)
{
	struct err e;
	*out = (struct pump_result){0};
	spec.socket = json_str(attach, "socket");
	spec.ticket = json_str(attach, "ticket");
	spec.exec = json_str(attach, "exec");
	spec.hits = true;
	if (*spec.socket != '/') {
		err_set(&e, ERR_BUG, "skepd named no socket to attach to");
		return out_fail(c, &e);
	}
	int rc = pump_run(&spec, out, &e);
	hold_over();
	if (rc)
		return out_fail(c, &e);
	if (out->out_closed)
		return 128 + SIGPIPE;
	if (out->exit.reason && !pump_has_told(out, out->exit.reason)) {
		auto_buf struct buf b = BUF_INIT(8192);
		buf_str(&b, "skep: ");
		out_text(&b, out->exit.reason);
		buf_byte(&b, '\n');
		out_stderr(&b);
	}
	return (int)out->exit.status;
}
