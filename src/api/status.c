// SPDX-License-Identifier: Apache-2.0
// The one table from error kinds to HTTP.
#include "api/server.h"

#include "base/mem.h"
#include <assert.h>

static const short http[] = {
	[ERR_NONE] = 500,
	[ERR_INVALID] = 400,
	[ERR_NOT_FOUND] = 404,
	[ERR_CONFLICT] = 409,
	[ERR_DENIED] = 403,
	[ERR_LIMIT] = 429,
	[ERR_TIMEOUT] = 504,
	[ERR_UNAVAILABLE] = 503,
	[ERR_UNSUPPORTED] = 501,
	[ERR_SYSTEM] = 500,
	[ERR_BUG] = 500,
};
static_assert(countof(http) == ERR_KINDS, "a status per kind");

int status_of(enum err_kind kind)
{
	return kind < ERR_KINDS ? http[kind] : 500;
}
