// SPDX-License-Identifier: Apache-2.0
// One line on stderr, for the operator. What was done goes to the journal, not here. errno is preserved.
#pragma once
#include "base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_init(const char *program, enum log_level max);
void log_line(enum log_level level, const char *fmt, ...) PRINTF(2, 3);
