// SPDX-License-Identifier: Apache-2.0
// Somebody's configuration file: what we put in is found again, is taken out again, and then the file says what it said before.
#include "cli/edit.h"

#include "base/json.h"
#include "base/mem.h"
#include "model/jsonc.h"
#include <stdlib.h>
#include <string.h>

static void expect(bool ok)
{
	if (!ok)
		abort();
}

static void try_json(const char *p, size_t n)
{
	static const char *const entry[] = {"mcpServers", "skep", NULL};
	struct err e;
	auto_buf struct buf t = BUF_INIT(1 << 20);
	buf_add(&t, p, n);
	bool before = jsonc_has(&t, entry);
	enum edit rc = jsonc_set(&t, entry, "{ \"command\": \"skep\" }", &e);
	if (rc == EDIT_FAILED)
		return;
	expect(jsonc_has(&t, entry) && (rc == EDIT_DONE || before));
	expect(jsonc_set(&t, entry, "{ \"command\": \"skep\" }", &e) == EDIT_SAME);
	expect(jsonc_remove(&t, entry, &e) == EDIT_DONE && !jsonc_has(&t, entry));
	auto_buf struct buf bare = BUF_INIT(1 << 20);
	jsonc_strip(t.p, t.n, &bare);
	auto_json json_t *j = json_read(buf_cstr(&bare), bare.n, &e);
	expect(j);
}

static void try_toml(const char *p, size_t n)
{
	static const struct toml_key keys[] = {{"command", "\"skep\""}, {"args", "[\"mcp\"]"}, {0}};
	struct err e;
	auto_buf struct buf t = BUF_INIT(1 << 20);
	buf_add(&t, p, n);
	if (toml_set(&t, "mcp_servers.skep", keys, &e) == EDIT_FAILED)
		return;
	expect(toml_remove(&t, "mcp_servers.skep", &e) != EDIT_FAILED);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	if (n > 1 << 16)
		return 0;
	try_json((const char *)p, n);
	try_toml((const char *)p, n);
	return 0;
}
