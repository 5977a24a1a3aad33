// SPDX-License-Identifier: Apache-2.0
// Two clocks: one that only goes forward, for waiting, and the time of day, for records.
#pragma once
#include <stddef.h>
#include <stdint.h>

uint64_t clock_ms(void);      // monotonic: for timers
uint64_t clock_us(void);      // monotonic
uint64_t clock_unix_ms(void); // wall clock: for records
void clock_iso(uint64_t unix_ms, char out[32]); // 2026-01-31T10:20:30.123Z
