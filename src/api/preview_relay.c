// SPDX-License-Identifier: Apache-2.0
// One body on its way from one side to the other, framed anew where the two sides frame differently.
#include "api/preview_int.h"

#include "base/mem.h"

static void send_chunk(struct flow *to, const char *p, size_t n)
{
	auto_buf struct buf b = BUF_INIT(n + 32);
	if (!n)
		return; // it would be the end
	buf_fmt(&b, "%zx\r\n", n);
	buf_add(&b, p, n);
	buf_str(&b, "\r\n");
	flow_send(to, b.p, b.n);
}

void relay_begin(struct relay *r, enum body_frame frame, uint64_t length, bool chunk)
{
	*r = (struct relay){.frame = frame, .left = length, .chunk = chunk};
	r->done = frame == FRAME_NONE || (frame == FRAME_LENGTH && !length);
}

void relay_finish(struct relay *r, struct flow *to)
{
	r->done = true;
	if (r->chunk)
		flow_send(to, "0\r\n\r\n", 5);
}

ssize_t relay_pass(struct relay *r, const char *p, size_t n, struct flow *to)
{
	struct err e;
	if (r->done)
		return 0;
	if (r->frame == FRAME_CHUNKED) {
		auto_buf struct buf plain = BUF_INIT(n + 1);
		ssize_t used = http_chunks_add(&r->chunks, p, n, &plain, &e);
		if (used < 0)
			return -1;
		if (r->chunk)
			send_chunk(to, plain.p, plain.n);
		else
			flow_send(to, plain.p, plain.n);
		if (r->chunks.state == CHUNK_DONE)
			relay_finish(r, to);
		return used;
	}
	if (r->frame == FRAME_LENGTH && n > r->left)
		n = (size_t)r->left;
	if (r->chunk)
		send_chunk(to, p, n);
	else
		flow_send(to, p, n);
	if (r->frame == FRAME_LENGTH) {
		r->left -= n;
		r->done = !r->left;
	}
	return (ssize_t)n;
}
