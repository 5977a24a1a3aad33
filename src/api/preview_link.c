// SPDX-License-Identifier: Apache-2.0
#include "api/preview.h"

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "engine/engine.h"
#include <string.h>

int preview_sign(struct engine *g, const char *sandbox, uint16_t port, uint64_t expires, char out[PREVIEW_LINK_MAX], struct err *e)
{
	char mac[65];
	auto_free char *text = xasprintf("preview %s %u %llu", sandbox, port, (unsigned long long)expires);
	if (engine_mac(g, text, mac, e))
		return -1;
	return fmt_to(out, PREVIEW_LINK_MAX, "%llu-%s", (unsigned long long)expires, mac) ? err_set(e, ERR_BUG, "link") : 0;
}

uint64_t preview_check(struct engine *g, const char *sandbox, uint16_t port, struct str signature)
{
	char want[PREVIEW_LINK_MAX], have[PREVIEW_LINK_MAX];
	struct str rest = signature, digits;
	uint64_t expires, now = clock_unix_ms() / 1000;
	struct err e;
	if (!str_next(&rest, '-', &digits) || str_to_u64(digits, 1, UINT64_MAX / 2, &expires) || expires <= now)
		return 0;
	if (fmt_to(have, sizeof have, "%.*s", (int)signature.n, signature.p) || preview_sign(g, sandbox, port, expires, want, &e))
		return 0;
	return key_equal(want, have) ? expires - now : 0;
}
