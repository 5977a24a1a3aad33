// SPDX-License-Identifier: Apache-2.0
#include "init/watch.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/live.h"
#include "base/mem.h"
#include "init/collect.h"
#include "init/watch_dirs.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define GATHER_MS 3	     // from the first news of a burst to the look
#define WALK_MS 1000	     // between walks of everything
#define BLIND_MS 100	     // and without inotify
#define PAUSE_MAX 500u	     // a burst that took long is followed by a pause: the command shall run too
#define BEFORE_BYTES (16u << 20) // of what was pending already, sent at the start
#define BEFORE_FILE (256u << 10)
#define HASH_BYTES (64ull << 20) // in one look
#define FLUSH (256u << 10)
#define NOTE_MAX (64u << 10)
#define NOTES_MAX (1u << 20) // more than the pipe holds

static const struct known *learned;

struct watching {
	struct stack stack;
	struct known known;
	struct dirs dirs;
	char *const *hide;
	int ws;
	struct buf out, in;
	uint64_t told, walked_ms, walk_took, before_left;
	bool starting, failed, gone;
	struct err e;
};

void watch_init(const struct known *known)
{
	learned = known;
}

// --- what the cell says ---

// All that is here. The end of it, or nonsense: nobody watches any more.
static void take_notes(struct watching *w)
{
	char bytes[4096];
	struct pollfd p = {.fd = 0, .events = POLLIN};
	while (!w->gone && w->in.n < NOTES_MAX - sizeof bytes && poll(&p, 1, 0) > 0) {
		ssize_t n = read(0, bytes, sizeof bytes);
		if (n < 0 && errno == EINTR)
			continue;
		w->gone = n <= 0;
		if (n > 0)
			buf_add(&w->in, bytes, (size_t)n);
	}
}

// The length of the first note of these bytes with all around it; 0 when it is not whole yet.
static size_t first_note(struct watching *w, const char *p, size_t n)
{
	struct wire r = {.p = (const uint8_t *)p, .n = n};
	uint32_t len = n >= 4 ? wire_get_u32(&r) : 1;
	w->gone |= !len || len > NOTE_MAX;
	return n < 4 || w->gone || r.n < len ? 0 : 4 + len;
}

// A command begins before it changes anything: its note is here when a change of it can have been seen. So it goes ahead of
// everything that was not sent yet.
static void pass_starts(struct watching *w, struct buf *out)
{
	auto_buf struct buf rest = BUF_INIT(NOTES_MAX);
	size_t at = 0, n;
	take_notes(w);
	while ((n = first_note(w, w->in.p + at, w->in.n - at))) {
		const char *note = w->in.p + at;
		if (note[4] == LIVE_BEGAN)
			live_put(out, 'E', note + 5, n - 5);
		else
			buf_add(&rest, note, n);
		at += n;
	}
	buf_add(&rest, w->in.p + at, w->in.n - at);
	buf_clear(&w->in);
	buf_add(&w->in, rest.p, rest.n);
}

static void flush(struct watching *w)
{
	auto_buf struct buf starts = BUF_INIT(NOTES_MAX * 2);
	if (w->out.overflow && !w->failed)
		w->failed = err_set(&w->e, ERR_BUG, "a record is too long");
	pass_starts(w, &starts);
	if (!w->failed && starts.n && fs_write_all(1, starts.p, starts.n, &w->e))
		w->failed = true;
	if (!w->failed && w->out.n && fs_write_all(1, w->out.p, w->out.n, &w->e))
		w->failed = true;
	buf_clear(&w->out);
}

// --- what is there ---

static void read_link(int dir, const char *name, struct live_state *s, struct buf *content)
{
	char target[4096];
	ssize_t n = readlinkat(dir, name, target, sizeof target);
	s->what = n < 0 ? 'u' : 'l';
	buf_add(content, target, n > 0 ? (size_t)n : 0);
	s->whole = n >= 0;
}

static void read_content(int fd, struct live_state *s, uint64_t max, struct buf *content)
{
	char bytes[32768];
	ssize_t n = 0;
	if (s->size > max)
		return;
	while (content->n <= max && (n = read(fd, bytes, sizeof bytes)) > 0)
		buf_add(content, bytes, (size_t)n);
	s->whole = !n && content->n <= max && !content->overflow;
}

// O_NONBLOCK: whatever it is by now, opening it must not wait.
static void read_at(int dir, const char *name, struct live_state *s, uint64_t max, struct buf *content)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW)) {
		s->what = errno == ENOENT || errno == ENOTDIR ? 'x' : 'u';
		return;
	}
	if (S_ISLNK(st.st_mode)) {
		read_link(dir, name, s, content);
		return;
	}
	if (!S_ISREG(st.st_mode)) {
		s->what = S_ISDIR(st.st_mode) ? 'd' : 's';
		return;
	}
	auto_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		s->what = 'u';
		return;
	}
	s->what = 'f';
	s->exec = st.st_mode & 0100;
	s->size = (uint64_t)st.st_size;
	read_content(fd, s, max, content);
}

static void put(struct watching *w, struct live_state *s, const struct buf *content)
{
	size_t n = strlen(s->path);
	auto_free char *plain = xstrndup(s->path, n && s->path[n - 1] == '/' ? n - 1 : n);
	s->path = plain;
	s->p = content->p;
	s->n = content->n;
	if (strlen(plain) > LIVE_PATH)
		return;
	live_put_state(&w->out, s);
	if (w->out.n >= FLUSH)
		flush(w);
}

// What the base has, for who shows the difference.
static void put_base(struct watching *w, const struct stack_change *c)
{
	auto_buf struct buf content = BUF_INIT(LIVE_CONTENT + 1);
	struct live_state s = {.type = 'B', .what = S_ISDIR(c->low->st_mode) ? 'd' : 'x', .path = c->path};
	if (c->low_dir >= 0)
		read_at(c->low_dir, c->name, &s, LIVE_CONTENT, &content);
	put(w, &s, &content);
}

// What was pending before somebody watched: small files, so that the next change of each is shown alone.
static void put_before(struct watching *w, const struct known_event *ev)
{
	auto_buf struct buf content = BUF_INIT(LIVE_CONTENT + 1);
	const struct stack_change *c = ev->change;
	struct live_state s = {.type = 'B', .what = 'x', .path = ev->path};
	if (!ev->entry || (c->up && c->up_dir < 0))
		return;
	if (c->up_dir >= 0)
		read_at(c->up_dir, c->name, &s, BEFORE_FILE, &content);
	if (s.what == 'f' && (!s.whole || content.n > w->before_left))
		return;
	w->before_left -= content.n;
	ev->entry->sent = true;
	put(w, &s, &content);
}

static void on_event(void *ctx, const struct known_event *ev)
{
	struct watching *w = ctx;
	auto_buf struct buf content = BUF_INIT(LIVE_CONTENT + 1);
	const struct stack_change *c = ev->change;
	struct live_state s = {.type = 'C', .kind = ev->kind, .base = ev->base, .what = 'x', .path = ev->path,
			       .has_before = ev->has_before, .has_after = ev->has_after};
	if (!ev->kind) {
		if (w->starting)
			put_before(w, ev);
		return;
	}
	memcpy(s.before, ev->before, sizeof s.before);
	memcpy(s.after, ev->after, sizeof s.after);
	if (c && c->low && (!ev->entry || !ev->entry->sent))
		put_base(w, c);
	if (ev->entry)
		ev->entry->sent = true;
	if (c && c->up_dir >= 0)
		read_at(c->up_dir, c->name, &s, LIVE_CONTENT, &content);
	else if (c && c->up)
		s.what = 'd';
	else if (!c && ev->kind != 'D')
		read_at(w->ws, ev->path, &s, LIVE_CONTENT, &content);
	put(w, &s, &content);
	w->told++;
}

// --- looking ---

static void look(struct watching *w, const char *at, bool tree)
{
	struct known_look l = {.known = &w->known, .fn = on_event, .ctx = w, .hide = w->hide, .all = w->starting,
			       .hash_bytes = HASH_BYTES, .hash_files = UINT32_MAX};
	if (!w->failed && known_walk(&w->stack, at, tree, &l, &w->e))
		w->failed = true;
}

static void walk_all(struct watching *w)
{
	uint64_t start = clock_ms();
	look(w, "", true);
	w->walked_ms = clock_ms();
	w->walk_took = w->walked_ms - start;
}

static void end_burst(struct watching *w)
{
	if (w->told) {
		live_put(&w->out, 'K', NULL, 0);
		w->told = 0;
	}
	flush(w);
}

static void burst(struct watching *w)
{
	struct dirs *d = &w->dirs;
	for (size_t i = 0; i < d->n_dirty; i++) {
		struct known_entry *e = d->dirty[i].closed ? known_find(&w->known, d->dirty[i].path) : NULL;
		if (e)
			e->mark = 0; // a store to mapped memory need not show in its times
		if (!d->all)
			look(w, d->dirty[i].path, d->dirty[i].tree);
	}
	if (d->all)
		walk_all(w);
	dirs_clean(d);
	end_burst(w);
}

// --- the ends of commands ---

// Behind all that changed before a command ended. 0: nobody watches any more.
static int pass_ends(struct watching *w)
{
	size_t n;
	flush(w);
	while ((n = first_note(w, w->in.p, w->in.n))) {
		auto_buf struct buf note = BUF_INIT(NOTE_MAX);
		buf_add(&note, w->in.p + 5, n - 5);
		buf_cut(&w->in, n);
		dirs_read(&w->dirs);
		w->dirs.all = true;
		burst(w);
		live_put(&w->out, 'E', note.p, note.n);
		flush(w);
	}
	return !w->gone;
}

// --- the loop ---

static int wait_ms(const struct watching *w, uint64_t quiet_until)
{
	uint64_t every = w->dirs.blind ? BLIND_MS : WALK_MS, now = clock_ms();
	if (every < 20 * w->walk_took)
		every = 20 * w->walk_took; // at most a twentieth of one core
	uint64_t until = w->walked_ms + every;
	if (dirs_any(&w->dirs) && quiet_until < until)
		until = quiet_until;
	return until > now ? (int)(until - now) : 0;
}

static int serve(struct watching *w)
{
	uint64_t quiet_until = 0, pause_until = 0;
	while (!w->failed) {
		bool was = dirs_any(&w->dirs);
		struct pollfd fds[] = {{.fd = w->dirs.fd, .events = POLLIN}, {.fd = 0, .events = POLLIN}, {.fd = 1}};
		int n = poll(fds, 3, wait_ms(w, quiet_until));
		if (n < 0 && errno != EINTR)
			break;
		if (fds[2].revents & (POLLERR | POLLHUP))
			return 0; // nobody reads any more
		if (fds[0].revents)
			dirs_read(&w->dirs);
		if (!was && dirs_any(&w->dirs))
			quiet_until = clock_ms() + GATHER_MS > pause_until ? clock_ms() + GATHER_MS : pause_until;
		if (fds[1].revents && !pass_ends(w))
			return 0;
		uint64_t start = clock_ms();
		if (dirs_any(&w->dirs) && start >= quiet_until) {
			bool storm = w->dirs.all;
			burst(w);
			uint64_t took = clock_ms() - start;
			took = storm ? took * 2 : took / 2;
			pause_until = clock_ms() + (took < PAUSE_MAX ? took : PAUSE_MAX);
		} else if (!dirs_any(&w->dirs) && !wait_ms(w, 0)) {
			walk_all(w);
			end_burst(w);
		}
		if (w->in.n && !pass_ends(w)) // came while that was sent
			return 0;
	}
	return -1;
}

// What pid 1 remembers becomes ours; nobody has been sent a content yet.
static void begin(struct watching *w)
{
	w->known = *learned;
	for (size_t i = 0; i < w->known.n_slots; i++)
		for (struct known_entry *e = w->known.slots[i]; e; e = e->next)
			e->sent = false;
	w->starting = true;
	walk_all(w);
	w->starting = false;
	w->known.since = (struct timespec){0};
	live_put(&w->out, 'K', NULL, 0); // it is watched from here on
	w->told = 0;
	flush(w);
}

int watch_run(struct err *e)
{
	struct watching w = {.out = BUF_INIT(LIVE_RECORD * 4), .in = BUF_INIT(NOTES_MAX), .before_left = BEFORE_BYTES};
	const char *path;
	const struct changes_of *of = collect_layers(&path);
	w.ws = path ? fs_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, e) : err_set(e, ERR_UNSUPPORTED, "there is no workspace to watch");
	if (w.ws < 0)
		return -1;
	w.hide = of->hide;
	int top = changes_stack(of, &w.stack);
	if (top < 0)
		return err_sys(e, "open the writable layer");
	if (dirs_open(&w.dirs, top, path, e))
		return -1;
	begin(&w);
	int rc = serve(&w);
	if (rc && w.failed)
		*e = w.e;
	else if (rc)
		err_sys(e, "watch");
	return rc;
}
