// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <time.h>

static uint64_t read_us(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

uint64_t clock_us(void)
{
	return read_us(CLOCK_MONOTONIC);
}

uint64_t clock_ms(void)
{
	return clock_us() / 1000;
}

uint64_t clock_unix_ms(void)
{
	return read_us(CLOCK_REALTIME) / 1000;
}

// n digits of v at p, and what stands behind them.
static char *put(char *p, unsigned v, int n, char end)
{
	for (int i = n; i--; v /= 10)
		p[i] = (char)('0' + v % 10);
	p[n] = end;
	return p + n + 1;
}

// By hand: every event of every journal has one, and the C library takes longer for it than for the rest of the line.
void clock_iso(uint64_t unix_ms, char out[32])
{
	time_t s = (time_t)(unix_ms / 1000);
	struct tm tm;
	gmtime_r(&s, &tm);
	out = put(out, (unsigned)tm.tm_year + 1900, 4, '-');
	out = put(out, (unsigned)tm.tm_mon + 1, 2, '-');
	out = put(out, (unsigned)tm.tm_mday, 2, 'T');
	out = put(out, (unsigned)tm.tm_hour, 2, ':');
	out = put(out, (unsigned)tm.tm_min, 2, ':');
	out = put(out, (unsigned)tm.tm_sec, 2, '.');
	out = put(out, (unsigned)(unix_ms % 1000), 3, 'Z');
	*out = 0;
}
