// SPDX-License-Identifier: Apache-2.0
// The user's terminal: raw while a pty of a cell is shown on it, and as it was at every other time.
#pragma once
#include "base/buf.h"
#include <stdbool.h>
#include <stdint.h>

bool term_is_all(void);					// stdin, stdout and stderr are terminals
void term_size(uint32_t *out_rows, uint32_t *out_cols); // of the first of them that is one; else 24 x 80
bool term_is_dumb(void);				// TERM says that it understands nothing but text
bool term_colour(const char *when); // when: always, never; auto or NULL: a terminal that is not dumb, and no NO_COLOR
// Raw mode on fd. What was found is put back by term_restore, also when a fault kills us.
int term_raw(int fd, struct err *e) MUST_USE;
void term_restore(void); // safe when nothing is raw

// Asks on the terminal, without showing what is typed. One line, without its end; the caller wipes it.
int term_ask_hidden(const char *prompt, struct buf *out, struct err *e) MUST_USE;
// True for y or yes. Without a terminal on stdin and stderr: false.
bool term_ask_yes(const char *prompt);
