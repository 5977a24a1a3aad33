// SPDX-License-Identifier: Apache-2.0
// SFTP: packets taken apart, and a conversation with the server in a directory of its own.
#include "base/fs.h"
#include "base/mem.h"
#include "init/sftp.h"
#include "init/sftp_wire.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static size_t begin(struct buf *b, unsigned type, uint32_t id)
{
	return sftp_begin(b, (enum sftp_type)type, id);
}

static void put(struct buf *b, const char *s)
{
	sftp_str(b, s, strlen(s));
}

static int parse(const struct buf *b, struct sftp_request *q)
{
	return sftp_parse((const uint8_t *)b->p + 4, b->n - 4, q);
}

static void a_request_is_read(void **state)
{
	(void)state;
	auto_buf struct buf b = BUF_INIT(4096);
	struct sftp_request q;
	size_t at = begin(&b, SFTP_OPEN, 7);
	put(&b, "a/b");
	sftp_u32(&b, SFTP_F_READ | SFTP_F_CREATE);
	sftp_attrs(&b, &(struct sftp_attrs){.has = SFTP_HAS_MODE | SFTP_HAS_SIZE, .mode = 0640, .size = 1ull << 40});
	sftp_end(&b, at);
	assert_int_equal(parse(&b, &q), 0);
	assert_int_equal(q.type, SFTP_OPEN);
	assert_int_equal(q.id, 7);
	assert_string_equal(q.path, "a/b");
	assert_int_equal(q.attrs.mode, 0640);
	assert_true(q.attrs.size == 1ull << 40);
	sftp_request_done(&q);
	for (size_t cut = 4; cut < b.n; cut++) // every shorter one is refused
		assert_int_equal(sftp_parse((const uint8_t *)b.p + 4, cut - 4, &q), -1);
}

static void what_is_wrong_is_refused(void **state)
{
	(void)state;
	struct sftp_request q;
	auto_buf struct buf nul = BUF_INIT(64), pairs = BUF_INIT(64), handle = BUF_INIT(64), name = BUF_INIT(64), empty = BUF_INIT(64);
	begin(&nul, SFTP_REMOVE, 1);
	sftp_str(&nul, "a\0b", 3);
	assert_int_equal(parse(&nul, &q), -1);
	begin(&pairs, SFTP_MKDIR, 1);
	put(&pairs, "d");
	sftp_u32(&pairs, 0x80000000u);
	sftp_u32(&pairs, UINT32_MAX);
	assert_int_equal(parse(&pairs, &q), -1);
	begin(&handle, SFTP_CLOSE, 1);
	put(&handle, "longer than ours");
	assert_int_equal(parse(&handle, &q), 0);
	assert_true(q.bad_handle);
	begin(&name, SFTP_EXTENDED, 1);
	put(&name, "no-such@example.org");
	assert_int_equal(parse(&name, &q), 0);
	assert_int_equal(q.type, SFTP_UNKNOWN);
	begin(&empty, SFTP_REALPATH, 1);
	put(&empty, "");
	assert_int_equal(parse(&empty, &q), 0);
	assert_string_equal(q.path, ".");
	sftp_request_done(&q);
}

// --- a conversation ---

struct talk {
	pid_t pid;
	int in, out;
	char dir[32];
	struct buf answer; // behind its length
};

static int talk_open(void **state)
{
	struct talk *t = xcalloc(1, sizeof *t);
	int in[2], out[2];
	strcpy(t->dir, "/tmp/skep-sftp-XXXXXX");
	assert_non_null(mkdtemp(t->dir));
	t->answer = BUF_INIT(SFTP_PACKET_MAX + 4);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	t->pid = fork();
	if (!t->pid) {
		struct err e;
		if (dup2(in[0], 0) < 0 || dup2(out[1], 1) < 0)
			_exit(3);
		close(in[1]);
		_exit(sftp_run(t->dir, &e) ? 1 : 0);
	}
	close(in[0]);
	close(out[1]);
	t->in = in[1];
	t->out = out[0];
	*state = t;
	return 0;
}

static int talk_close(void **state)
{
	struct talk *t = *state;
	struct err e;
	close_fd(&t->in);
	close_fd(&t->out);
	waitpid(t->pid, NULL, 0);
	if (fs_remove_tree(AT_FDCWD, t->dir, &e))
		return -1;
	buf_done(&t->answer);
	free(t);
	return 0;
}

static uint32_t u32_at(const struct buf *b, size_t i)
{
	const uint8_t *p = (const uint8_t *)b->p + i;
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool read_bytes(int fd, struct buf *b, size_t n)
{
	while (n) {
		char *room = buf_room(b, n);
		ssize_t got = room ? read(fd, room, n) : 0;
		if (got <= 0)
			return false;
		b->n += (size_t)got;
		n -= (size_t)got;
	}
	return true;
}

// The type of the answer, 0 when there is none.
static int ask(struct talk *t, struct buf *b)
{
	struct err e;
	sftp_end(b, 0);
	if (fs_write_all(t->in, b->p, b->n, &e))
		return 0;
	buf_clear(b);
	buf_clear(&t->answer);
	if (!read_bytes(t->out, &t->answer, 4))
		return 0;
	uint32_t n = u32_at(&t->answer, 0);
	buf_clear(&t->answer);
	return read_bytes(t->out, &t->answer, n) ? (uint8_t)t->answer.p[0] : 0;
}

static int status(struct talk *t, struct buf *b)
{
	return ask(t, b) == SFTP_STATUS ? (int)u32_at(&t->answer, 5) : -1;
}

static void hello(struct talk *t)
{
	auto_buf struct buf b = BUF_INIT(64);
	begin(&b, SFTP_INIT, 3);
	assert_int_equal(ask(t, &b), SFTP_VERSION);
	assert_int_equal(u32_at(&t->answer, 1), 3);
}

static int with_path(struct talk *t, unsigned type, const char *path)
{
	auto_buf struct buf b = BUF_INIT(4096);
	begin(&b, type, 5);
	put(&b, path);
	if (type == SFTP_MKDIR)
		sftp_attrs(&b, &(struct sftp_attrs){0});
	int got = ask(t, &b);
	assert_int_equal(u32_at(&t->answer, 1), 5);
	return got == SFTP_STATUS ? (int)u32_at(&t->answer, 5) : 1000 + got;
}

static void files_are_written_and_read(void **state)
{
	struct talk *t = *state;
	auto_buf struct buf b = BUF_INIT(4096);
	hello(t);
	begin(&b, SFTP_OPEN, 1);
	put(&b, "f");
	sftp_u32(&b, SFTP_F_READ | SFTP_F_WRITE | SFTP_F_CREATE | SFTP_F_EXCL);
	sftp_attrs(&b, &(struct sftp_attrs){0});
	assert_int_equal(ask(t, &b), SFTP_HANDLE);
	uint32_t h = u32_at(&t->answer, 9);
	begin(&b, SFTP_WRITE, 2);
	sftp_u32(&b, 4), sftp_u32(&b, h), sftp_u64(&b, 3), put(&b, "hello");
	assert_int_equal(status(t, &b), SFTP_OK);
	begin(&b, SFTP_READ, 3);
	sftp_u32(&b, 4), sftp_u32(&b, h), sftp_u64(&b, 2), sftp_u32(&b, UINT32_MAX);
	assert_int_equal(ask(t, &b), SFTP_DATA);
	assert_int_equal(u32_at(&t->answer, 5), 6);
	assert_memory_equal(t->answer.p + 9, "\0hello", 6);
	begin(&b, SFTP_READ, 3);
	sftp_u32(&b, 4), sftp_u32(&b, h), sftp_u64(&b, 1u << 20), sftp_u32(&b, 1);
	assert_int_equal(status(t, &b), SFTP_EOF);
	begin(&b, SFTP_CLOSE, 4);
	sftp_u32(&b, 4), sftp_u32(&b, h);
	assert_int_equal(status(t, &b), SFTP_OK);
	begin(&b, SFTP_CLOSE, 4);
	sftp_u32(&b, 4), sftp_u32(&b, h);
	assert_int_equal(status(t, &b), SFTP_FAILURE);
}

static void names_are_changed(void **state)
{
	struct talk *t = *state;
	auto_buf struct buf b = BUF_INIT(4096);
	struct stat st;
	hello(t);
	assert_int_equal(with_path(t, SFTP_MKDIR, "d"), SFTP_OK);
	assert_int_equal(with_path(t, SFTP_MKDIR, "d"), SFTP_FAILURE);
	assert_int_equal(with_path(t, SFTP_STAT, "d"), 1000 + SFTP_ATTRS);
	assert_int_equal(with_path(t, SFTP_STAT, "none"), SFTP_NO_SUCH_FILE);
	assert_int_equal(with_path(t, SFTP_REMOVE, "d"), SFTP_FAILURE); // a directory
	begin(&b, SFTP_SYMLINK, 6);
	put(&b, "where it leads"), put(&b, "link");
	assert_int_equal(status(t, &b), SFTP_OK);
	assert_int_equal(with_path(t, SFTP_READLINK, "link"), 1000 + SFTP_NAME);
	assert_memory_equal(t->answer.p + 13, "where it leads", 14);
	begin(&b, SFTP_RENAME, 6);
	put(&b, "link"), put(&b, "d");
	assert_int_equal(status(t, &b), SFTP_FAILURE); // nobody's place is taken
	begin(&b, SFTP_RENAME, 6);
	put(&b, "link"), put(&b, "d/link");
	assert_int_equal(status(t, &b), SFTP_OK);
	auto_free char *link = xasprintf("%s/d/link", t->dir);
	assert_int_equal(lstat(link, &st), 0);
	assert_int_equal(with_path(t, SFTP_REALPATH, "d/../new"), 1000 + SFTP_NAME);
	auto_free char *want = xasprintf("%s/new", t->dir);
	assert_memory_equal(t->answer.p + 13, want, strlen(want));
	assert_int_equal(with_path(t, SFTP_RMDIR, "d"), SFTP_FAILURE);
	assert_int_equal(with_path(t, SFTP_REMOVE, "d/link"), SFTP_OK);
	assert_int_equal(with_path(t, SFTP_RMDIR, "d"), SFTP_OK);
}

static void a_directory_is_listed_to_its_end(void **state)
{
	struct talk *t = *state;
	auto_buf struct buf b = BUF_INIT(4096);
	uint32_t n = 0;
	for (int i = 0; i < 250; i++) {
		struct err e;
		auto_free char *path = xasprintf("%s/file-%d", t->dir, i);
		assert_int_equal(fs_write(AT_FDCWD, path, "x", 1, 0600, &e), 0);
	}
	hello(t);
	assert_int_equal(with_path(t, SFTP_OPENDIR, ""), 1000 + SFTP_HANDLE);
	uint32_t h = u32_at(&t->answer, 9);
	for (int got;; n += u32_at(&t->answer, 5)) {
		begin(&b, SFTP_READDIR, 2);
		sftp_u32(&b, 4), sftp_u32(&b, h);
		got = ask(t, &b);
		if (got != SFTP_NAME) {
			assert_int_equal(got, SFTP_STATUS);
			assert_int_equal(u32_at(&t->answer, 5), SFTP_EOF);
			break;
		}
	}
	assert_int_equal(n, 252);
}

static void a_packet_too_long_ends_it(void **state)
{
	struct talk *t = *state;
	int st;
	struct err e;
	hello(t);
	assert_int_equal(fs_write_all(t->in, "\x7f\xff\xff\xff", 4, &e), 0);
	assert_int_equal(waitpid(t->pid, &st, 0), t->pid);
	assert_int_equal(st, 1 << 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_read),
		cmocka_unit_test(what_is_wrong_is_refused),
		cmocka_unit_test_setup_teardown(files_are_written_and_read, talk_open, talk_close),
		cmocka_unit_test_setup_teardown(names_are_changed, talk_open, talk_close),
		cmocka_unit_test_setup_teardown(a_directory_is_listed_to_its_end, talk_open, talk_close),
		cmocka_unit_test_setup_teardown(a_packet_too_long_ends_it, talk_open, talk_close),
	};
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
