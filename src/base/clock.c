// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <stdio.h>
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

void clock_iso(uint64_t unix_ms, char out[32])
{
	time_t s = (time_t)(unix_ms / 1000);
	struct tm tm;
	gmtime_r(&s, &tm);
	size_t n = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out + n, 32 - n, ".%03uZ", (unsigned)(unix_ms % 1000));
}
