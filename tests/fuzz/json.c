// SPDX-License-Identifier: Apache-2.0
// Both directions: hostile JSON is read or refused; any bytes written as a string are JSON in one line.
#include "base/json.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_it(const char *p, size_t n)
{
	static const char *const known[] = {"name", "argv", "n", NULL};
	struct err e = {0};
	const char *s;
	uint64_t v = 0;
	bool t = false;
	char **list = NULL;
	auto_json json_t *j = json_read(p, n, &e);
	if (!j) {
		if (e.kind != ERR_INVALID)
			abort();
		return;
	}
	(void)!json_only(j, known, &e);
	(void)!json_get_str(j, "name", &s, &e);
	(void)!json_get_u64(j, "n", &v, &e);
	(void)!json_get_bool(j, "name", &t, &e);
	if (!json_get_strv(j, "argv", &list, &e))
		strv_free(list);
}

static void write_it(const char *p, size_t n)
{
	auto_buf struct buf b = BUF_INIT(8 << 20);
	struct jsonw w = {.b = &b};
	struct err e;
	jw_open(&w, '{');
	jw_kbytes(&w, "k", p, n);
	jw_close(&w, '}');
	if (b.overflow || memchr(b.p, '\n', b.n))
		abort();
	if (memchr(p, 0, n))
		return; // our reader refuses NUL in strings
	auto_json json_t *j = json_read(b.p, b.n, &e);
	if (!j || (str_is_utf8(p, n) && (strlen(json_str(j, "k")) != n || memcmp(json_str(j, "k"), p, n))))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size) {
		read_it((const char *)data, size);
		write_it((const char *)data, size);
	}
	return 0;
}
