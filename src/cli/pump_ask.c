// SPDX-License-Identifier: Apache-2.0
// Questions of the gate on the terminal of an exec. The command could draw another question over ours, so between a question and
// its answer none of its output is shown: what comes waits in the sinks, and past a window the cell is not read any more, which
// makes the command wait. The question has a way to the terminal of its own (stdout may be a pipe that ends there, too).
//
//	idle --M_ASK--> due --terminal reset, output held--> drawn --all written--> shown --key, timeout, answered elsewhere--> idle
//
// No key counts as an answer before the question was shown for a moment (cli/ask.h).
#include "cli/pump_int.h"

#include "base/mem.h"
#include "cli/prompt.h"
#include "cli/term.h"
#include "model/policy.h"
#include <unistd.h>

static bool can_ask(const struct pump *p)
{
	return p->s->tty && p->s->in >= 0 && !p->exited && isatty(p->s->in);
}

static void put_answer(struct pump *p, const struct ask_answer *a)
{
	auto_buf struct buf b = BUF_INIT(8);
	wire_u8(&b, a->allow ? VERDICT_ALLOW : VERDICT_DENY);
	wire_u8(&b, (uint8_t)a->scope);
	pump_put_frame_of(p, M_ANSWER, 0, a->id, &b);
}

static void screen_open(struct pump *p)
{
	if (p->screen_open)
		return;
	p->screen_open = true;
	sink_open(&p->screen, p->s->in);
	p->ask_lock = take_fd(&p->screen.lock);
}

static void output_hold(struct pump *p, bool held)
{
	p->sinks[0].held = p->sinks[1].held = held;
}

// The last question is answered: what waited is shown, on a terminal as the command had it. A program that draws the whole
// screen draws it again when its size changes.
static int output_release(struct pump *p, struct buf *text)
{
	if (!term_is_dumb())
		modes_again(&p->modes, text);
	if (sink_put(&p->screen, text->p, text->n, p->e))
		return -1;
	prompt_over(p->ask_lock);
	output_hold(p, false);
	if (!p->exited)
		pump_put_redraw(p);
	return sink_flush(&p->sinks[0], p->e) || sink_flush(&p->sinks[1], p->e) ? -1 : 0;
}

// text: how the question before ended. Then the next question, if there is one and the terminal is free for it.
static int ask_step(struct pump *p, struct buf *text)
{
	bool held = p->sinks[0].held;
	if (held && !p->ask.n)
		return output_release(p, text);
	if (ask_is_due(&p->ask) && (held || prompt_try(p->ask_lock))) {
		output_hold(p, true);
		if (!term_is_dumb() && !held) {
			modes_reset(text);
			modes_bottom(text);
		} else {
			buf_str(text, "\r\n");
		}
		ask_draw(&p->ask, text);
	}
	if (text->n && sink_put(&p->screen, text->p, text->n, p->e))
		return -1;
	if (!sink_waiting(&p->screen))
		ask_seen(&p->ask);
	return 0;
}

int pump_on_ask(struct pump *p, uint32_t id, struct wire *w)
{
	auto_buf struct buf text = BUF_INIT(16384);
	if (!can_ask(p) || !ask_add(&p->ask, id, w)) {
		put_answer(p, &(struct ask_answer){.id = id});
		return 0;
	}
	screen_open(p);
	return ask_step(p, &text);
}

// Another front end answered, or the gate gave up.
int pump_on_answer(struct pump *p, uint32_t id, struct wire *w)
{
	auto_buf struct buf text = BUF_INIT(16384);
	uint8_t verdict = wire_get_u8(w), scope = wire_get_u8(w);
	struct ask_answer by = {.allow = verdict == VERDICT_ALLOW, .scope = (enum answer_scope)scope};
	return ask_gone(&p->ask, id, &by, &text) ? ask_step(p, &text) : 0;
}

int pump_ask_turn(struct pump *p)
{
	struct ask_answer a;
	auto_buf struct buf text = BUF_INIT(16384);
	if (!p->screen_open)
		return 0;
	if (sink_waiting(&p->screen) && sink_flush(&p->screen, p->e))
		return -1;
	if (ask_late(&p->ask, &a, &text))
		put_answer(p, &a);
	return ask_step(p, &text);
}

// The terminal belonged to somebody else meanwhile, and may not show the question any more.
void pump_ask_redraw(struct pump *p)
{
	if (p->ask.n)
		ask_redraw(&p->ask);
}

// Nobody waits for an answer any more.
int pump_ask_drop(struct pump *p, const char *why)
{
	auto_buf struct buf text = BUF_INIT(16384);
	ask_drop(&p->ask, why, &text);
	return p->screen_open ? ask_step(p, &text) : 0;
}

void pump_ask_close(struct pump *p)
{
	ask_done(&p->ask);
	if (!p->screen_open)
		return;
	close_fd(&p->ask_lock);
	sink_close(&p->screen);
}

// True: the keys were an answer.
bool pump_ask_keys(struct pump *p, const char *keys, size_t n)
{
	struct ask_answer a;
	auto_buf struct buf text = BUF_INIT(16384);
	if (!ask_keys(&p->ask, keys, n, &a, &text))
		return false;
	put_answer(p, &a);
	if (ask_step(p, &text))
		p->fatal = SIGHUP; // the terminal is gone
	return true;
}
