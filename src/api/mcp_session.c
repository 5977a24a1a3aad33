// SPDX-License-Identifier: Apache-2.0
// Sessions of the legacy era. They hold nothing but the version that was agreed on: everything a call needs is in its arguments.
#include "api/mcp_int.h"

#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include <string.h>

static struct session {
	char id[KEY_SIZE], version[16];
	uint64_t used; // 0 = free
} table[MCP_SESSIONS];

static struct session *find(const char *id)
{
	for (struct session *s = table; s < table + MCP_SESSIONS; s++)
		if (s->used && key_equal(s->id, id))
			return s;
	return NULL;
}

const char *mcp_session_new(const char *version)
{
	struct session *oldest = table;
	for (struct session *s = table; s < table + MCP_SESSIONS; s++)
		if (s->used < oldest->used)
			oldest = s;
	key_make(oldest->id);
	if (fmt_to(oldest->version, sizeof oldest->version, "%s", version))
		oldest->version[0] = 0;
	oldest->used = clock_ms() + 1;
	return oldest->id;
}

const char *mcp_session_use(const char *id)
{
	struct session *s = strlen(id) == KEY_SIZE - 1 ? find(id) : NULL;
	if (!s)
		return NULL;
	s->used = clock_ms() + 1;
	return s->version;
}

bool mcp_session_end(const char *id)
{
	struct session *s = strlen(id) == KEY_SIZE - 1 ? find(id) : NULL;
	if (s)
		*s = (struct session){0};
	return s;
}
