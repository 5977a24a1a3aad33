// SPDX-License-Identifier: Apache-2.0
// modes_read follows the control sequences of a command's output and remembers private modes (CSI ? N h and l) that differ from
// a terminal's default. A sequence that is hidden in a string or too long is not seen: then a mode is not set again, no more.
//
//	text --ESC--> seq "\033" --[--> seq "\033[..." --final byte--> text
#include "cli/modes.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

#define ESC '\033'

static const struct {
	unsigned number;
	bool on;    // by default
	bool again; // set again after a question
} table[] = {
	{1049, false, true}, {1047, false, true}, {47, false, true}, // the alternate screen goes first: others are of a screen
	{1, false, true},    {7, true, true},	  {25, true, true},  {9, false, true},	 {1000, false, true}, {1001, false, true},
	{1002, false, true}, {1003, false, true}, {1004, false, true}, {1005, false, true}, {1006, false, true}, {1015, false, true},
	{1016, false, true}, {2004, false, true}, {5, false, false}, {66, false, true}, {69, false, false}, {2026, false, false},
};

static void mode_note(struct modes *m, unsigned number, bool on)
{
	for (size_t i = 0; i < countof(table); i++) {
		uint32_t bit = UINT32_C(1) << i;
		if (table[i].number == number && on != table[i].on)
			m->set |= bit;
		else if (table[i].number == number)
			m->set &= ~bit;
	}
}

// seq holds a whole sequence: ESC [ prefix parameters final
static void sequence_note(struct modes *m)
{
	char *at = m->seq + 3, final = m->seq[m->n - 1];
	m->seq[m->n - 1] = 0;
	if (m->seq[2] == '?' && (final == 'h' || final == 'l'))
		for (char *end; *at >= '0' && *at <= '9'; at = *end == ';' ? end + 1 : end)
			mode_note(m, (unsigned)strtoul(at, &end, 10), final == 'h');
	else if (m->seq[2] == '>' && final == 'm' && !strncmp(at, "4;", 2))
		m->other_keys = (uint32_t)strtoul(at + 2, NULL, 10);
	else if (m->seq[2] == '>' && final == 'm' && !strcmp(at, "4"))
		m->other_keys = 0;
	else if (m->seq[2] == '!' && final == 'p')
		*m = (struct modes){0};
}

static void byte_read(struct modes *m, char c)
{
	if (c == ESC) {
		m->seq[0] = c;
		m->n = 1;
	} else if (m->n == 1 && c == 'c') { // full reset
		*m = (struct modes){0};
	} else if (m->n == 1 ? c != '[' : m->n == MODES_HELD - 1 || (unsigned char)c < 0x20) {
		m->n = 0;
	} else {
		m->seq[m->n++] = c;
		if (m->n > 2 && c >= 0x40 && c <= 0x7e) {
			if (m->n > 3)
				sequence_note(m);
			m->n = 0;
		}
	}
}

void modes_read(struct modes *m, const char *p, size_t n)
{
	for (const char *end = p + n; p < end; p++) {
		if (!m->n && !(p = memchr(p, ESC, (size_t)(end - p))))
			return;
		byte_read(m, *p);
	}
}

// Leaving the alternate screen and resetting the scroll region move the cursor, so its place is saved around them. The kitty
// keyboard protocol has a stack: an entry without flags is put on it and taken off by modes_again.
void modes_reset(struct buf *out)
{
	buf_str(out, "\030\033\\\0337"); // an incomplete sequence or string ends
	for (size_t i = countof(table); i--;)
		buf_fmt(out, "\033[?%u%c", table[i].number, table[i].on ? 'h' : 'l');
	buf_str(out, "\033[r\0338"
		     "\033[>4;0m\033[>0u"		   // keys are sent as plain bytes
		     "\033[4l\033[20l"			   // no insert mode, no automatic carriage return
		     "\017\033(B\033[m"			   // ASCII, no colour, not hidden
		     "\033]104\033\\\033]110\033\\\033]111\033\\"); // the palette's own colours
}

void modes_bottom(struct buf *out)
{
	buf_str(out, "\033[?6l\033[999;1H\r\n");
}

void modes_again(const struct modes *m, struct buf *out)
{
	for (size_t i = 0; i < countof(table); i++)
		if (table[i].again && m->set & UINT32_C(1) << i)
			buf_fmt(out, "\033[?%u%c", table[i].number, table[i].on ? 'l' : 'h');
	if (m->other_keys)
		buf_fmt(out, "\033[>4;%um", m->other_keys);
	buf_str(out, "\033[<1u");
}
