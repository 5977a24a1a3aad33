// SPDX-License-Identifier: Apache-2.0
// From stdin.
#include "cli/pump_int.h"

#include "base/mem.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define STDIN_CHUNK (128u << 10)
#define DATA_HEAD (FRAME_HEAD + 8u) // frame header and offset

bool pump_wants_stdin(const struct pump *p)
{
	bool may = p->in_credit > p->in_off || p->ask.n; // a question is answered whether or not the command reads
	return !p->in_over && !p->exited && !p->mute && may && p->out.n < STDIN_CHUNK;
}

// Who only joined an exec and typed nothing does not end its input for others.
static void end_stdin(struct pump *p)
{
	p->in_over = true;
	p->in_ended = !p->s->join || p->typed;
	if (p->in_ended)
		pump_put_frame(p, M_EOF, 0, &(struct buf){0});
}

// Behind a new greeting: what the cell does not have is sent again, as one frame; it is less than the cell's window.
static void repeat_stdin(struct pump *p, uint64_t taken)
{
	auto_buf struct buf b = BUF_INIT(p->line.kept.max + 8);
	p->in_off = taken + p->line.kept.n;
	p->mine = p->line.kept_from + p->line.kept.n;
	wire_u64(&b, p->line.kept_from);
	buf_add(&b, p->line.kept.p, p->line.kept.n);
	if (p->line.kept.n)
		pump_put_frame(p, M_DATA, 0, &b);
	if (p->in_ended)
		pump_put_frame(p, M_EOF, 0, &(struct buf){0});
}

// The exec closed its stdin: whoever writes to ours should get to know, as without us in between.
static void drop_stdin(struct pump *p)
{
	struct stat st;
	p->in_over = true;
	if (p->s->in < 0 || fstat(p->s->in, &st) || !S_ISFIFO(st.st_mode))
		return;
	auto_fd int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null >= 0 && dup2(null, p->s->in) < 0)
		return;
}

int pump_on_credit(struct pump *p, struct wire *w)
{
	bool far = line_comes_back(&p->line);
	uint64_t upto = wire_get_u64(w), taken = wire_get_u64(w), mine = far ? wire_get_u64(w) : 0, heard = far ? wire_get_u64(w) : 0;
	if (w->bad)
		return pump_malformed(p);
	line_heard(&p->line, heard);
	if (p->repeat)
		pump_repeat_signals(p);
	if (upto == UINT64_MAX) {
		p->repeat = false;
		drop_stdin(p);
		return 0;
	}
	if (p->repeat && p->line.stranger)
		line_guess(&p->line, taken);
	else
		line_taken(&p->line, mine, taken);
	if (p->repeat)
		repeat_stdin(p, taken);
	else if (p->in_off < taken) // others write, too
		p->in_off = taken;
	p->repeat = false;
	p->in_credit = upto;
	return 0;
}

void pump_read_stdin(struct pump *p)
{
	uint64_t may = p->in_credit > p->in_off ? p->in_credit - p->in_off : 64;
	size_t want = may < STDIN_CHUNK ? (size_t)may : STDIN_CHUNK;
	char *at = buf_room(&p->out, DATA_HEAD + want);
	assert(at);
	ssize_t n = read(p->s->in, at + DATA_HEAD, want);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) { // also EIO: the terminal is gone
		end_stdin(p);
		return;
	}
	if (p->ask.n && pump_ask_keys(p, at + DATA_HEAD, (size_t)n))
		return;
	pump_put_head(at, 8 + (uint32_t)n, M_DATA, 0);
	for (int i = 0; i < 8; i++)
		at[FRAME_HEAD + i] = (char)((line_comes_back(&p->line) ? p->mine : STDIN_APPEND) >> 8 * i);
	line_keep(&p->line, p->mine, at + DATA_HEAD, (size_t)n);
	p->typed = true;
	p->mine += (uint64_t)n;
	p->out.n += DATA_HEAD + (size_t)n;
	p->in_off += (uint64_t)n;
}
