// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include "base/clock.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static const char *program_name = "skep";
static enum log_level max_level = LOG_WARN;

void log_init(const char *program, enum log_level max)
{
	program_name = program;
	max_level = max;
}

void log_line(enum log_level level, const char *fmt, ...)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};
	char line[1200], now[32];
	int keep = errno;
	va_list ap;
	if (level > max_level)
		return;
	clock_iso(clock_unix_ms(), now);
	int n = snprintf(line, sizeof line - 1, "%s %s[%d] %s: ", now, program_name, (int)getpid(), names[level]);
	va_start(ap, fmt);
	int m = vsnprintf(line + n, sizeof line - 1 - (size_t)n, fmt, ap);
	va_end(ap);
	n = m < 0 ? n : n + m;
	if (n > (int)sizeof line - 2)
		n = sizeof line - 2;
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		errno = keep; // nowhere left to say it
	errno = keep;
}
