// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_names[] = {
	"none",	   "invalid", "not_found",   "conflict",    "denied", "limit",
	"timeout", "unavailable", "unsupported", "system", "bug",
};
static_assert(sizeof(kind_names) / sizeof(*kind_names) == ERR_KINDS, "a name per kind");

const char *err_kind_name(enum err_kind kind)
{
	return kind < ERR_KINDS ? kind_names[kind] : kind_names[0];
}

enum err_kind err_kind_parse(const char *name)
{
	for (int k = 1; k < ERR_KINDS; k++)
		if (!strcmp(kind_names[k], name))
			return k;
	return ERR_SYSTEM;
}

// A disk, quota or table that is full is a limit for the caller whichever call met it.
static enum err_kind kind_of_errno(int sys)
{
	switch (sys) {
	case ENOSPC:
	case EDQUOT:
	case EMFILE:
	case ENFILE:
		return ERR_LIMIT;
	default:
		return ERR_SYSTEM;
	}
}

int err_sys(struct err *e, const char *fmt, ...)
{
	int sys = errno;
	va_list ap;
	e->kind = kind_of_errno(sys);
	e->sys = sys;
	va_start(ap, fmt);
	int n = vsnprintf(e->msg, sizeof e->msg, fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof e->msg)
		snprintf(e->msg + n, sizeof e->msg - n, ": %s", strerror(sys));
	errno = sys;
	return -1;
}

int err_set(struct err *e, enum err_kind kind, const char *fmt, ...)
{
	va_list ap;
	e->kind = kind;
	e->sys = 0;
	va_start(ap, fmt);
	vsnprintf(e->msg, sizeof e->msg, fmt, ap);
	va_end(ap);
	return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	char inner[sizeof e->msg];
	va_list ap;
	memcpy(inner, e->msg, sizeof inner);
	va_start(ap, fmt);
	int n = vsnprintf(e->msg, sizeof e->msg, fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof e->msg)
		snprintf(e->msg + n, sizeof e->msg - n, ": %s", inner);
	return -1;
}
