// SPDX-License-Identifier: Apache-2.0
// Frames over a byte channel between our own processes: skepd, skep-cell, init and local clients.
// Each frame has a 12-byte header {u32 length, u8 type, u8 stream, u8 has_fd, u8 0, u32 id}. A
// descriptor may travel with a frame (unix sockets only). Sending never blocks: what the kernel does not
// take is queued, and a peer that lets the queue pass its bound is cut off. Inside a round of the loop small frames
// wait for its end and leave together: every send is a wake-up of somebody.
#pragma once
#include "base/buf.h"
#include "base/loop.h"

#define FRAME_HEAD 12
#define FRAME_MAX (4u << 20)  // payload bytes; a longer one is a protocol error
#define CHAN_QUEUE (16u << 20) // bytes waiting for a slow peer

struct frame {
	uint8_t type, stream;
	uint32_t id;
	const uint8_t *p; // borrowed, valid during the callback
	size_t n;
	int fd; // -1 or owned by the channel: take it with take_fd(&f->fd) to keep it
};

struct chan {
	struct watch w;
	int fd;
	bool dead;	 // peer gone: on_close was called, nothing is sent any more
	bool blocked;	 // the kernel took not all of the queue
	struct chore flush;
	struct timer later; // for frames that may wait
	size_t chunk; // bytes asked for at once
	size_t taken; // blocking use: bytes of the frame handed out last
	struct loop *loop; // NULL before chan_attach: blocking use
	struct buf in, out;
	int fds_in[16], n_fds_in;
	int fds_out[16];
	size_t fds_out_at[16]; // queue position of the frame it belongs to
	int n_fds_out;
	bool paused;
	bool ending; // the peer is gone: what it sent is delivered now, paused or not
	void (*on_frame)(struct chan *c, struct frame *f);
	void (*on_close)(struct chan *c); // peer gone or protocol error; the owner calls chan_close
	void (*on_drain)(struct chan *c); // optional: the queue became empty
};

void chan_init(struct chan *c, int fd); // takes fd
int chan_attach(struct chan *c, struct loop *l, struct err *e) MUST_USE; // sets O_NONBLOCK
void chan_close(struct chan *c); // leaves the loop, closes, frees buffers; safe twice
bool chan_is_open(const struct chan *c);

// False when the channel is closed or was cut off for being too slow (on_close follows from the loop).
bool chan_send(struct chan *c, uint8_t type, uint8_t stream, uint32_t id, const void *p, size_t n);
bool chan_send_buf(struct chan *c, uint8_t type, uint32_t id, const struct buf *b);
// What nobody waits for: it leaves with the next frame, or after CHAN_LATER_MS.
#define CHAN_LATER_MS 3
bool chan_send_later(struct chan *c, uint8_t type, uint8_t stream, uint32_t id, const void *p, size_t n);
bool chan_send_fd(struct chan *c, uint8_t type, uint32_t id, const void *p, size_t n, int fd); // borrows fd
bool chan_send_fd_on(struct chan *c, uint8_t type, uint8_t stream, int fd); // the same, on a stream, with nothing beside it
size_t chan_queued(const struct chan *c);
void chan_flush(struct chan *c); // what waits for the end of the round leaves now: for a peer that shall work meanwhile
// Stops reading: flow control by the socket itself. When the peer is gone, the rest of what it sent, which the socket's
// buffer bounds, is delivered nevertheless, and on_close follows.
void chan_pause(struct chan *c, bool paused);

// Blocking use, before the loop runs: the next frame. Payload valid until the next call.
int chan_recv(struct chan *c, struct frame *out, struct err *e) MUST_USE;
