// SPDX-License-Identifier: Apache-2.0
// What of envd is a table or a form: codes, envelopes, proto3 JSON, ends of processes, signatures, ranges, modes, gzip.
#include "api/e2b_connect.h"
#include "api/e2b_entry.h"
#include "api/e2b_files.h"
#include "api/e2b_gunzip.h"
#include "api/e2b_process_int.h"
#include "base/mem.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>
// cmocka wants the four above it
#include <cmocka.h>

static void codes_and_statuses(void **state)
{
	static const struct {
		enum rpc_code code;
		const char *name;
		int status;
	} want[] = {
		{RPC_CANCELED, "canceled", 499},	    {RPC_UNKNOWN, "unknown", 500},
		{RPC_INVALID_ARGUMENT, "invalid_argument", 400}, {RPC_DEADLINE_EXCEEDED, "deadline_exceeded", 504},
		{RPC_NOT_FOUND, "not_found", 404},	    {RPC_ALREADY_EXISTS, "already_exists", 409},
		{RPC_PERMISSION_DENIED, "permission_denied", 403}, {RPC_RESOURCE_EXHAUSTED, "resource_exhausted", 429},
		{RPC_FAILED_PRECONDITION, "failed_precondition", 400}, {RPC_ABORTED, "aborted", 409},
		{RPC_OUT_OF_RANGE, "out_of_range", 400},    {RPC_UNIMPLEMENTED, "unimplemented", 501},
		{RPC_INTERNAL, "internal", 500},	    {RPC_UNAVAILABLE, "unavailable", 503},
		{RPC_DATA_LOSS, "data_loss", 500},	    {RPC_UNAUTHENTICATED, "unauthenticated", 401},
	};
	(void)state;
	for (size_t i = 0; i < countof(want); i++) {
		assert_string_equal(rpc_code_name(want[i].code), want[i].name);
		assert_int_equal(rpc_code_status(want[i].code), want[i].status);
	}
	assert_int_equal(countof(want), RPC_CODES - 1);
	for (int kind = ERR_INVALID; kind < ERR_KINDS; kind++)
		assert_int_not_equal(rpc_code_of((enum err_kind)kind), RPC_OK);
	assert_int_equal(rpc_code_of(ERR_NOT_FOUND), RPC_NOT_FOUND);
	assert_int_equal(rpc_code_of(ERR_UNAVAILABLE), RPC_UNAVAILABLE);
}

// What a job inside fails with, as envd says it.
static void jobs_fail_as_envd_does(void **state)
{
	static const struct {
		int sys;
		enum err_kind kind;
		enum rpc_code want;
	} t[] = {
		{87 /* EUSERS */, ERR_INVALID, RPC_UNAUTHENTICATED}, {17 /* EEXIST */, ERR_CONFLICT, RPC_ALREADY_EXISTS},
		{20 /* ENOTDIR */, ERR_INVALID, RPC_INVALID_ARGUMENT}, {21 /* EISDIR */, ERR_INVALID, RPC_INVALID_ARGUMENT},
		{2 /* ENOENT */, ERR_NOT_FOUND, RPC_NOT_FOUND}, {28 /* ENOSPC */, ERR_LIMIT, RPC_RESOURCE_EXHAUSTED},
		{13 /* EACCES */, ERR_DENIED, RPC_PERMISSION_DENIED}, {0, ERR_UNAVAILABLE, RPC_UNAVAILABLE},
	};
	(void)state;
	for (size_t i = 0; i < countof(t); i++)
		assert_int_equal(envd_code_of(&(struct err){.kind = t[i].kind, .sys = t[i].sys}), t[i].want);
}

static void envelopes(void **state)
{
	(void)state;
	auto_buf struct buf b = BUF_INIT(256);
	struct str s, one;
	int flags;
	envelope_add(&b, 0, "{\"a\":1}", 7);
	envelope_add(&b, ENVELOPE_END, "{}", 2);
	assert_memory_equal(b.p, "\0\0\0\0\7{\"a\":1}\2\0\0\0\2{}", b.n);
	s = (struct str){b.p, b.n};
	assert_true(envelope_next(&s, &flags, &one));
	assert_int_equal(flags, 0);
	assert_int_equal(one.n, 7);
	assert_true(envelope_next(&s, &flags, &one));
	assert_int_equal(flags, 2);
	assert_false(envelope_next(&s, &flags, &one));
	for (size_t cut = 0; cut < 12; cut++) {
		s = (struct str){b.p, cut};
		assert_false(envelope_next(&s, &flags, &one));
	}
	s = (struct str){"\1\0\0\0\0", 5};
	assert_true(envelope_next(&s, &flags, &one));
	assert_int_equal(flags, -1); // compressed
	s = (struct str){"\0\377\377\377\377", 5};
	assert_true(envelope_next(&s, &flags, &one));
	assert_int_equal(flags, -1); // too long
}

static void proto3_as_json(void **state)
{
	static const char text[] = "{\"watcher_id\":\"w\",\"pid\":\"12\",\"size\":7,\"stdin\":false,\"cwd\":null,\"neg\":-1,\"x\":\"1x\"}";
	const char *s;
	uint32_t n = 5;
	bool b = true;
	struct err e;
	(void)state;
	auto_json json_t *o = json_read(text, sizeof text - 1, &e);
	assert_int_equal(proto_str(o, "watcherId", &s, &e), 0);
	assert_string_equal(s, "w");
	assert_int_equal(proto_str(o, "cwd", &s, &e), 0);
	assert_null(s);
	assert_int_equal(proto_u32(o, "absent", &n, &e), 0);
	assert_int_equal(n, 5);
	assert_int_equal(proto_u32(o, "pid", &n, &e), 0);
	assert_int_equal(n, 12);
	assert_int_equal(proto_u32(o, "size", &n, &e), 0);
	assert_int_equal(n, 7);
	assert_int_equal(proto_u32(o, "neg", &n, &e), -1);
	assert_int_equal(proto_u32(o, "x", &n, &e), -1);
	assert_int_equal(proto_bool(o, "stdin", &b, &e), 0);
	assert_false(b);
	assert_int_equal(proto_bool(o, "pid", &b, &e), -1);
	assert_int_equal(proto_str(o, "size", &s, &e), -1);
}

static void ends_of_processes(void **state)
{
	static const struct {
		uint32_t status, signal;
		const char *want;
	} t[] = {
		{0, 0, "{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status 0\"}}}"},
		{3, 0, "{\"event\":{\"end\":{\"exitCode\":3,\"exited\":true,\"status\":\"exit status 3\",\"error\":\"exit status 3\"}}}"},
		{137, SIGKILL, "{\"event\":{\"end\":{\"exitCode\":-1,\"status\":\"signal: killed\",\"error\":\"signal: killed\"}}}"},
		{143, SIGTERM, "{\"event\":{\"end\":{\"exitCode\":-1,\"status\":\"signal: terminated\",\"error\":\"signal: terminated\"}}}"},
		{128 + 40, 40, "{\"event\":{\"end\":{\"exitCode\":-1,\"status\":\"signal: signal 40\",\"error\":\"signal: signal 40\"}}}"},
	};
	(void)state;
	for (size_t i = 0; i < countof(t); i++) {
		auto_buf struct buf b = BUF_INIT(512);
		process_end_event(&b, &(struct exec_result){.status = t[i].status, .signal = t[i].signal});
		assert_string_equal(b.p, t[i].want);
	}
}

// As E2B publishes it with its SDK.
static void a_signature(void **state)
{
	(void)state;
	auto_buf struct buf b = BUF_INIT(128);
	files_signature(&b, "hello.txt", "read", "user", "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0", NULL);
	assert_string_equal(b.p, "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
	auto_buf struct buf timed = BUF_INIT(128);
	files_signature(&timed, "hello.txt", "read", "user", "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0", "123");
	assert_string_not_equal(timed.p, b.p);
}

static void ranges(void **state)
{
	static const struct {
		const char *header, *from;
		uint64_t len;
	} good[] = {{"bytes=0-0", "0", 1}, {"bytes=5-9", "5", 5}, {"bytes=7-", "7", UINT64_MAX}, {"bytes=-3", "-3", UINT64_MAX}};
	static const char *const bad[] = {NULL, "", "bytes=", "bytes=-", "bytes=-0", "bytes=9-5", "bytes=1-2,4-5", "lines=1-2", "bytes=a-b",
					  "bytes=1", "bytes=+1-2", "bytes=1--2", "bytes=99999999999999999999-"};
	struct byte_range r;
	(void)state;
	for (size_t i = 0; i < countof(good); i++) {
		assert_true(files_range(good[i].header, &r));
		assert_string_equal(r.from, good[i].from);
		assert_int_equal(r.len, good[i].len);
	}
	for (size_t i = 0; i < countof(bad); i++)
		assert_false(files_range(bad[i], &r));
}

static void encodings(void **state)
{
	static const char *const yes[] = {NULL, "", "gzip", "gzip, deflate", "identity", "gzip;q=1, identity;q=0.5", "*;q=0, identity", "identity;q=0.001"};
	static const char *const no[] = {"identity;q=0", "gzip, identity;q=0.0", "*;q=0", "gzip, *;q=0"};
	(void)state;
	for (size_t i = 0; i < countof(yes); i++)
		assert_true(files_accepts_plain(yes[i]));
	for (size_t i = 0; i < countof(no); i++)
		assert_false(files_accepts_plain(no[i]));
}

static void notes(void **state)
{
	char longest[FILES_NOTE_NAME + 2];
	(void)state;
	memset(longest, 'a', sizeof longest);
	longest[FILES_NOTE_NAME + 1] = 0;
	assert_non_null(files_note_wrong(longest, "v"));
	longest[FILES_NOTE_NAME] = 0;
	assert_null(files_note_wrong(longest, "any printable value = fine"));
	assert_non_null(files_note_wrong("", "v"));
	assert_non_null(files_note_wrong("k", "caf\xc3\xa9"));
	assert_non_null(files_note_wrong("k", "tab\t"));
	assert_non_null(files_note_wrong("k y", "v"));
}

static void modes(void **state)
{
	static const struct {
		uint32_t mode;
		const char *want;
	} t[] = {
		{S_IFREG | 0644, "-rw-r--r--"}, {S_IFDIR | 0755, "drwxr-xr-x"},   {S_IFLNK | 0777, "Lrwxrwxrwx"},
		{S_IFDIR | 01777, "dtrwxrwxrwx"}, {S_IFREG | 04755, "urwxr-xr-x"}, {S_IFREG | 02755, "grwxr-xr-x"},
		{S_IFIFO | 0600, "prw-------"}, {S_IFSOCK | 0600, "Srw-------"}, {S_IFBLK | 0660, "Drw-rw----"},
		{S_IFCHR | 0666, "Dcrw-rw-rw-"}, {S_IFREG, "----------"},
	};
	(void)state;
	for (size_t i = 0; i < countof(t); i++) {
		auto_buf struct buf b = BUF_INIT(32);
		entry_permissions(&b, t[i].mode);
		assert_string_equal(b.p, t[i].want);
	}
}

static void entries(void **state)
{
	char name[] = "l", user[] = "user", group[] = "7", path[] = "/home/user/l", target[] = "/x", a[] = "a=1", b[] = "b=x=y";
	char *notes_of[] = {a, b, NULL};
	struct entry n = {.file = {.name = name, .mode = S_IFLNK | 0777, .size = 5, .mtime_ns = 1700000000123456789u, .user = user, .group = group},
			  .path = path, .target = target, .target_mode = S_IFREG | 0600, .notes = notes_of};
	auto_buf struct buf wire = BUF_INIT(4096), json = BUF_INIT(4096);
	struct jsonw w = {.b = &json};
	struct entry back;
	(void)state;
	entry_write(&wire, &n);
	for (size_t cut = 0; cut < wire.n; cut++) {
		struct wire half = {.p = (const uint8_t *)wire.p, .n = cut};
		assert_int_equal(entry_read(&half, &back), -1);
	}
	struct wire whole = {.p = (const uint8_t *)wire.p, .n = wire.n};
	assert_int_equal(entry_read(&whole, &back), 0);
	assert_int_equal(whole.n, 0);
	entry_info(&w, &back);
	entry_done(&back);
	assert_string_equal(json.p, "{\"name\":\"l\",\"type\":\"FILE_TYPE_FILE\",\"path\":\"/home/user/l\",\"size\":\"5\",\"mode\":384,"
				    "\"permissions\":\"Lrwxrwxrwx\",\"owner\":\"user\",\"group\":\"7\","
				    "\"modifiedTime\":\"2023-11-14T22:13:20.123456789Z\",\"symlinkTarget\":\"/x\",\"metadata\":{\"a\":\"1\",\"b\":\"x=y\"}}");
}

// --- gzip ---

struct sink {
	struct buf b;
	size_t at_most;
};

static size_t to_sink(void *ctx, const char *p, size_t n)
{
	struct sink *s = ctx;
	n = s->at_most && n > s->at_most ? s->at_most : n;
	buf_add(&s->b, p, n);
	return n;
}

static size_t zip(const char *p, size_t n, char *out, size_t max)
{
	z_stream z = {.next_in = (unsigned char *)(uintptr_t)p, .avail_in = (unsigned)n, .next_out = (unsigned char *)out, .avail_out = (unsigned)max};
	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return max - z.avail_out;
}

static int unzip(const char *p, size_t n, size_t piece, struct sink *s, struct err *e)
{
	struct gunzip *g = gunzip_new(to_sink, s);
	int rc = 0;
	for (size_t at = 0; at < n && !rc;) {
		long took = gunzip_feed(g, p + at, n - at < piece ? n - at : piece, e);
		at += took < 0 ? 0 : (size_t)took;
		rc = took < 0 ? -1 : 0;
	}
	while (!rc && !(rc = gunzip_end(g, e)))
		;
	gunzip_free(g);
	return rc;
}

static void compressed_bodies(void **state)
{
	static char plain[300000], packed[600000];
	struct err e;
	(void)state;
	for (size_t i = 0; i < sizeof plain; i++)
		plain[i] = (char)(i % 1000 < 900 ? 'x' : i * 7);
	size_t n = zip(plain, sizeof plain, packed, sizeof packed), two = n + zip("tail", 4, packed + n, sizeof packed - n);
	for (size_t piece = 1; piece < 100000; piece = piece * 9 + 1) {
		struct sink s = {.b = BUF_INIT(1 << 20), .at_most = 5000};
		assert_int_equal(unzip(packed, two, piece, &s, &e), 1);
		assert_int_equal(s.b.n, sizeof plain + 4);
		assert_memory_equal(s.b.p, plain, sizeof plain);
		buf_done(&s.b);
	}
	struct sink s = {.b = BUF_INIT(1 << 20)};
	assert_int_equal(unzip(packed, n - 9, 1000, &s, &e), -1); // without its end
	assert_int_equal(unzip("not gzip at all", 15, 4, &s, &e), -1);
	assert_int_equal(unzip("", 0, 4, &s, &e), -1);
	buf_done(&s.b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_and_statuses), cmocka_unit_test(jobs_fail_as_envd_does), cmocka_unit_test(envelopes),
		cmocka_unit_test(proto3_as_json),     cmocka_unit_test(ends_of_processes),	cmocka_unit_test(a_signature),
		cmocka_unit_test(ranges),	      cmocka_unit_test(encodings),		cmocka_unit_test(notes),
		cmocka_unit_test(modes),	      cmocka_unit_test(entries),		cmocka_unit_test(compressed_bodies),
	};
	return cmocka_run_group_tests_name("api/e2b_envd", tests, NULL, NULL);
}
