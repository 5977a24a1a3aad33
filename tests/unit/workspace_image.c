// SPDX-License-Identifier: Apache-2.0
// Import of images: the four kinds of source, layers, and entries that must be refused. The tars are made
// here byte by byte, so that they can be as wrong as we like.
#include "base/fs.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "workspace/image.h"
#include "workspace/image_tree.h"
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
// cmocka wants the four above it
#include <cmocka.h>

#if defined(__x86_64__)
#define HERE "amd64"
#elif defined(__aarch64__)
#define HERE "arm64"
#else
#define HERE "riscv64"
#endif
#define ELSEWHERE "mips"

struct place {
	char path[64];
	int fd;
	struct buf tar;
	struct image_result made;
	struct err e;
};

static int setup(void **state)
{
	struct place *p = xcalloc(1, sizeof *p);
	*p = (struct place){.path = "/tmp/skep-image-XXXXXX", .tar = BUF_INIT(64 << 20)};
	assert_non_null(mkdtemp(p->path));
	p->fd = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = p;
	return p->fd < 0;
}

static int teardown(void **state)
{
	struct place *p = *state;
	struct err e;
	close(p->fd);
	buf_done(&p->tar);
	int rc = fs_remove_tree(AT_FDCWD, p->path, &e);
	free(p);
	return rc;
}

// One ustar entry. Octal fields as tar has them.
static void octal(char *field, size_t n, uint64_t v)
{
	field[--n] = 0;
	while (n--) {
		field[n] = (char)('0' + (v & 7));
		v >>= 3;
	}
}

struct entry {
	const char *name, *link, *data;
	char type;
	unsigned mode, uid, gid;
	size_t size;
};

static void add(struct buf *b, struct entry x)
{
	char h[512] = {0};
	size_t n = x.size ? x.size : x.data ? strlen(x.data) : 0;
	memcpy(h, x.name, strnlen(x.name, 100));
	octal(h + 100, 8, x.mode ? x.mode : 0644);
	octal(h + 108, 8, x.uid);
	octal(h + 116, 8, x.gid);
	octal(h + 124, 12, n);
	octal(h + 136, 12, 1700000000);
	h[156] = x.type ? x.type : '0';
	if (x.link)
		memcpy(h + 157, x.link, strnlen(x.link, 100));
	memcpy(h + 257, "ustar\0" "00", 8);
	memset(h + 148, ' ', 8);
	unsigned sum = 0;
	for (size_t i = 0; i < sizeof h; i++)
		sum += (unsigned char)h[i];
	octal(h + 148, 7, sum);
	buf_add(b, h, sizeof h);
	if (x.data)
		buf_add(b, x.data, n);
	while (b->n % 512)
		buf_byte(b, 0);
}

#define ADD(b, ...) add(b, (struct entry){__VA_ARGS__})
#define DIRECTORY .type = '5', .mode = 0755

static void end(struct buf *b)
{
	static const char zero[1024];
	buf_add(b, zero, sizeof zero);
	assert_false(b->overflow);
}

static char *in_place(struct place *p, const char *name)
{
	return xasprintf("%s/%s", p->path, name);
}

static void save(struct place *p, const char *name, const char *data, size_t n)
{
	struct err e;
	assert_int_equal(fs_write(p->fd, name, data, n, 0644, &e), 0);
}

static int import(struct place *p, const char *name)
{
	auto_free char *source = in_place(p, name), *into = in_place(p, "out");
	p->e = (struct err){0};
	int rc = image_import(source, into, &p->made, &p->e);
	assert_false(fs_exists(p->fd, "out.parts"));
	if (rc)
		assert_false(fs_exists(p->fd, "out"));
	return rc;
}

static int import_tar(struct place *p)
{
	end(&p->tar);
	save(p, "in.tar", p->tar.p, p->tar.n);
	return import(p, "in.tar");
}

static void must(struct place *p, int rc)
{
	if (rc)
		fail_msg("%s", p->e.msg);
}

static void must_refuse(struct place *p, int rc, const char *word)
{
	assert_int_equal(rc, -1);
	if (!strstr(p->e.msg, word))
		fail_msg("\"%s\" does not name \"%s\"", p->e.msg, word);
}

static void has(struct place *p, const char *path, const char *content)
{
	struct err e = {0};
	auto_free char *name = xasprintf("out/%s", path);
	auto_buf struct buf b = BUF_INIT(1 << 20);
	if (fs_read(p->fd, name, &b, &e))
		fail_msg("%s: %s", path, e.msg);
	assert_string_equal(buf_cstr(&b), content);
}

static void has_not(struct place *p, const char *path)
{
	auto_free char *name = xasprintf("out/%s", path);
	if (fs_exists(p->fd, name))
		fail_msg("%s is there", path);
}

static struct stat stat_of(struct place *p, const char *path)
{
	struct stat st;
	auto_free char *name = xasprintf("out/%s", path);
	assert_int_equal(fstatat(p->fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st;
}

static void again(struct place *p)
{
	struct err e;
	assert_int_equal(fs_remove_tree(p->fd, "out", &e), 0);
	buf_clear(&p->tar);
}

static void a_plain_tar(void **state)
{
	struct place *p = *state;
	struct buf *b = &p->tar;
	ADD(b, "./", DIRECTORY);
	ADD(b, "./etc/", DIRECTORY);
	ADD(b, "./etc/passwd", .data = "root:x:0:0\n");
	ADD(b, "./bin", .type = '2', .link = "usr/bin");
	ADD(b, "./usr/bin/tool", .data = "#!/bin/sh\n", .mode = 0755);
	ADD(b, "./usr/bin/other", .type = '1', .link = "./usr/bin/tool");
	ADD(b, "/abs/olute", .data = "inside");
	ADD(b, "./.wh.literal", .data = "not a layer");
	must(p, import_tar(p));
	has(p, "etc/passwd", "root:x:0:0\n");
	has(p, "usr/bin/other", "#!/bin/sh\n");
	has(p, "abs/olute", "inside");
	has(p, ".wh.literal", "not a layer");
	assert_int_equal(stat_of(p, "usr/bin/other").st_ino, stat_of(p, "usr/bin/tool").st_ino);
	assert_true(S_ISLNK(stat_of(p, "bin").st_mode));
	assert_int_equal(stat_of(p, "usr/bin/tool").st_mtime, 1700000000);
	assert_int_equal(stat_of(p, "usr/bin/tool").st_mode & 07777, 0755);
	static const char *const needs[] = {"proc", "dev", "tmp", "run", "home", "root", "etc"};
	for (size_t i = 0; i < countof(needs); i++)
		assert_true(S_ISDIR(stat_of(p, needs[i]).st_mode));
	assert_int_equal(stat_of(p, "tmp").st_mode & 07777, 01777);
	assert_int_equal(p->made.bytes, 11 + 10 + 6 + 11);
}

static void a_directory_is_copied(void **state)
{
	struct place *p = *state;
	struct err e;
	assert_int_equal(fs_mkdirs(p->fd, "src/etc/deep", 0755, &e), 0);
	save(p, "src/etc/a", "aaa", 3);
	assert_int_equal(linkat(p->fd, "src/etc/a", p->fd, "src/etc/deep/b", 0), 0);
	assert_int_equal(symlinkat("/etc/a", p->fd, "src/etc/link"), 0);
	assert_int_equal(mkfifoat(p->fd, "src/pipe", 0600), 0);
	assert_int_equal(fchmodat(p->fd, "src/etc/deep", 0555, 0), 0);
	must(p, import(p, "src"));
	has(p, "etc/deep/b", "aaa");
	assert_int_equal(stat_of(p, "etc/deep/b").st_nlink, 2);
	assert_int_equal(stat_of(p, "etc/deep").st_mode & 07777, 0555);
	assert_int_equal(p->made.skipped, 1);
	has_not(p, "pipe");
	again(p);
	must(p, import(p, "src///")); // and with a slash at the end
	has(p, "etc/a", "aaa");
}

static void a_directory_that_holds_the_target(void **state)
{
	struct place *p = *state;
	must_refuse(p, import(p, "."), "images are kept");
}

static void modes_and_owners(void **state)
{
	struct place *p = *state;
	struct buf *b = &p->tar;
	ADD(b, "d/", .type = '5', .mode = 02555, .uid = 5, .gid = 6);
	ADD(b, "d/suid", .data = "x", .mode = 06755, .uid = 1000, .gid = 1001);
	ADD(b, "d/far", .data = "x", .mode = 0600, .uid = 70000, .gid = 100000);
	ADD(b, "dark/", .type = '5', .mode = 01000);
	ADD(b, "dark/x", .data = "x");
	must(p, import_tar(p));
	assert_int_equal(stat_of(p, "d").st_mode & 07777, 0555);
	assert_int_equal(stat_of(p, "d/suid").st_mode & 07777, 0755);
	assert_int_equal(stat_of(p, "dark").st_mode & 07777, 01000);
	if (geteuid() == 0) {
		assert_int_equal(stat_of(p, "d").st_uid, 5);
		assert_int_equal(stat_of(p, "d/suid").st_gid, 1001);
		assert_int_equal(stat_of(p, "d/far").st_uid, 0);
		assert_int_equal(stat_of(p, "d/far").st_gid, 0);
	} else {
		assert_int_equal(stat_of(p, "d/suid").st_uid, geteuid());
	}
}

static void special_files_are_left_out(void **state)
{
	struct place *p = *state;
	struct buf *b = &p->tar;
	ADD(b, "dev/null", .type = '3', .mode = 0666);
	ADD(b, "dev/sda", .type = '4', .mode = 0660);
	ADD(b, "pipe", .type = '6');
	ADD(b, "file", .data = "x");
	must(p, import_tar(p));
	has_not(p, "dev/null");
	has_not(p, "dev/sda");
	has_not(p, "pipe");
	assert_int_equal(p->made.skipped, 3);
}

static void names_that_are_refused(void **state)
{
	struct place *p = *state;
	static const char *const names[] = {"../x", "a/../../x", "..", "a/..", "/../x", "./../x", "a/../b"};
	for (size_t i = 0; i < countof(names); i++) {
		ADD(&p->tar, "ok", .data = "x");
		ADD(&p->tar, names[i], .data = "evil");
		must_refuse(p, import_tar(p), names[i]);
		assert_int_equal(p->e.kind, ERR_INVALID);
		buf_clear(&p->tar);
	}
	ADD(&p->tar, ".", .data = "the root as a file");
	must_refuse(p, import_tar(p), "refused");
	assert_false(fs_exists(p->fd, "x"));
}

static void long_name(struct buf *b, const char *name)
{
	ADD(b, "././@LongLink", .type = 'L', .data = name, .size = strlen(name) + 1);
	ADD(b, "short", .data = "x");
}

static void names_too_long_or_too_deep(void **state)
{
	struct place *p = *state;
	auto_buf struct buf name = BUF_INIT(100000);
	for (int i = 0; i < 300; i++)
		buf_byte(&name, 'n');
	long_name(&p->tar, name.p);
	must_refuse(p, import_tar(p), "too long");
	buf_clear(&p->tar);
	buf_clear(&name);
	for (int i = 0; i < 300; i++)
		buf_str(&name, "d/");
	buf_str(&name, "f");
	long_name(&p->tar, name.p);
	must_refuse(p, import_tar(p), "too deep");
	buf_clear(&p->tar);
	for (int i = 0; i < 30; i++) {
		for (int k = 0; k < 200; k++)
			buf_byte(&name, 'n');
		buf_byte(&name, '/');
	}
	long_name(&p->tar, name.p);
	must_refuse(p, import_tar(p), "too long");
}

static void control_characters_do_not_reach_the_message(void **state)
{
	struct place *p = *state;
	ADD(&p->tar, "a\x1b[2J/../x", .data = "evil");
	must_refuse(p, import_tar(p), "a?[2J");
	assert_null(strchr(p->e.msg, 0x1b));
}

static void nothing_goes_through_a_link(void **state)
{
	struct place *p = *state;
	static const char *const targets[] = {"/tmp", "..", "../..", "/", ".", "etc"};
	auto_free char *outside = in_place(p, "victim");
	save(p, "victim", "safe", 4);
	for (size_t i = 0; i < countof(targets); i++) {
		buf_clear(&p->tar);
		ADD(&p->tar, "etc/", DIRECTORY);
		ADD(&p->tar, "way", .type = '2', .link = targets[i]);
		ADD(&p->tar, "way/planted", .data = "evil");
		must_refuse(p, import_tar(p), "way/planted");
	}
	buf_clear(&p->tar); // a link to a file, then the file: the link is replaced, its target is not written
	ADD(&p->tar, "file", .type = '2', .link = outside);
	ADD(&p->tar, "file", .data = "mine");
	must(p, import_tar(p));
	has(p, "file", "mine");
	auto_buf struct buf b = BUF_INIT(100);
	assert_int_equal(fs_read(p->fd, "victim", &b, &p->e), 0);
	assert_string_equal(b.p, "safe");
}

static void a_directory_replaces_a_link(void **state)
{
	struct place *p = *state;
	ADD(&p->tar, "etc/", DIRECTORY);
	ADD(&p->tar, "way", .type = '2', .link = "etc");
	ADD(&p->tar, "way/", DIRECTORY);
	ADD(&p->tar, "way/x", .data = "x");
	must(p, import_tar(p));
	assert_true(S_ISDIR(stat_of(p, "way").st_mode));
	has_not(p, "etc/x");
}

static void things_replace_each_other(void **state)
{
	struct place *p = *state;
	struct buf *b = &p->tar;
	ADD(b, "a/b/c", .data = "1");
	ADD(b, "a", .data = "a file now"); // a directory with content goes
	ADD(b, "f", .data = "1");
	ADD(b, "f/", DIRECTORY);
	ADD(b, "f/x", .data = "2");
	ADD(b, "f/x", .type = '2', .link = "y");
	ADD(b, "f/x", .data = "3");
	must(p, import_tar(p));
	has(p, "a", "a file now");
	has(p, "f/x", "3");
}

static void hard_links_stay_inside(void **state)
{
	struct place *p = *state;
	static const char *const targets[] = {"/etc/passwd", "../in.tar", "nope", "etc", "", "way/passwd"};
	for (size_t i = 0; i < countof(targets); i++) {
		buf_clear(&p->tar);
		ADD(&p->tar, "etc/", DIRECTORY);
		ADD(&p->tar, "way", .type = '2', .link = "/etc");
		ADD(&p->tar, "stolen", .type = '1', .link = targets[i]);
		must_refuse(p, import_tar(p), "refused");
	}
	buf_clear(&p->tar); // onto itself, onto another, and to a link: the link itself is joined
	ADD(&p->tar, "a", .data = "a");
	ADD(&p->tar, "a", .type = '1', .link = "a");
	ADD(&p->tar, "b", .data = "b");
	ADD(&p->tar, "b", .type = '1', .link = "/a");
	ADD(&p->tar, "way", .type = '2', .link = "/etc/passwd");
	ADD(&p->tar, "joined", .type = '1', .link = "way");
	must(p, import_tar(p));
	has(p, "b", "a");
	assert_true(S_ISLNK(stat_of(p, "joined").st_mode));
	buf_clear(&p->tar);
	again(p);
	ADD(&p->tar, "d/x", .data = "x");
	ADD(&p->tar, "d", .type = '1', .link = "d/x");
	must_refuse(p, import_tar(p), "refused");
}

static void mount_points_must_be_directories(void **state)
{
	struct place *p = *state;
	static const char *const names[] = {"proc", "dev", "tmp", "run", "home", "root", "etc"};
	for (size_t i = 0; i < countof(names); i++) {
		buf_clear(&p->tar);
		ADD(&p->tar, "usr/", DIRECTORY);
		ADD(&p->tar, names[i], .type = '2', .link = "usr");
		must_refuse(p, import_tar(p), names[i]);
		buf_clear(&p->tar);
		ADD(&p->tar, names[i], .data = "x");
		must_refuse(p, import_tar(p), names[i]);
	}
}

static void extended_attributes_are_dropped(void **state)
{
	struct place *p = *state;
	char value[10];
	struct err e;
	assert_int_equal(fs_mkdirs(p->fd, "src", 0755, &e), 0);
	save(p, "src/x", "x", 1);
	auto_free char *x = in_place(p, "src/x"), *made = in_place(p, "out/x");
	if (setxattr(x, "user.overlay.opaque", "y", 1, 0))
		skip();
	must(p, import(p, "src"));
	assert_int_equal(getxattr(made, "user.overlay.opaque", value, sizeof value), -1);
	buf_clear(&p->tar);
	again(p);
	static const char pax[] = "41 SCHILY.xattr.user.overlay.redirect=/x\n";
	ADD(&p->tar, "pax", .type = 'x', .data = pax);
	ADD(&p->tar, "x", .data = "x");
	must(p, import_tar(p));
	assert_int_equal(getxattr(made, "user.overlay.redirect", value, sizeof value), -1);
}

static void utf8_names_in_pax_headers(void **state)
{
	struct place *p = *state;
	ADD(&p->tar, "pax", .type = 'x', .data = "15 path=gr\xc3\xbc\xc3\x9f\n", .size = 15);
	ADD(&p->tar, "short", .data = "x");
	must(p, import_tar(p));
	has(p, "gr\xc3\xbc\xc3\x9f", "x");
}

static void damaged_archives(void **state)
{
	struct place *p = *state;
	save(p, "noise", "this is no archive at all, not even a bit", 41);
	must_refuse(p, import(p, "noise"), "archive");
	ADD(&p->tar, "a", .data = "0123456789");
	save(p, "cut", p->tar.p, 515);
	must_refuse(p, import(p, "cut"), "runcated");
	assert_int_equal(p->e.kind, ERR_INVALID);
	must_refuse(p, import(p, "absent"), "absent");
	assert_int_equal(mkfifoat(p->fd, "fifo", 0600), 0);
	must_refuse(p, import(p, "fifo"), "neither"); // and does not hang
}

static void too_large_is_refused(void **state)
{
	struct place *p = *state;
	char h[12];
	ADD(&p->tar, "huge", .data = "x");
	// base-256 size: 1 EiB, checksum mended
	memset(h, 0, sizeof h);
	h[0] = (char)0x80;
	h[4] = 0x10;
	unsigned sum = 0;
	memcpy(p->tar.p + 124, h, sizeof h);
	memset(p->tar.p + 148, ' ', 8);
	for (size_t i = 0; i < 512; i++)
		sum += (unsigned char)p->tar.p[i];
	octal(p->tar.p + 148, 7, sum);
	must_refuse(p, import_tar(p), "larger");
	assert_int_equal(p->e.kind, ERR_LIMIT);
}

static void the_target_must_be_new(void **state)
{
	struct place *p = *state;
	ADD(&p->tar, "a", .data = "1");
	end(&p->tar);
	save(p, "in.tar", p->tar.p, p->tar.n);
	assert_int_equal(mkdirat(p->fd, "out", 0755), 0);
	auto_free char *source = in_place(p, "in.tar"), *into = in_place(p, "out");
	assert_int_equal(image_import(source, into, &p->made, &p->e), -1);
	assert_int_equal(p->e.kind, ERR_CONFLICT);
	assert_true(fs_exists(p->fd, "out")); // and is not removed
}

// Layers as text: a tar is closed and its sum taken.
struct layer {
	struct buf b;
	char hex[SHA256_HEX];
};

static void layer_begin(struct layer *l)
{
	*l = (struct layer){.b = BUF_INIT(16 << 20)};
}

static void layer_end(struct layer *l)
{
	end(&l->b);
	sha256_hex(l->b.p, l->b.n, l->hex);
}

static void three_layers(struct layer l[3])
{
	for (int i = 0; i < 3; i++)
		layer_begin(&l[i]);
	ADD(&l[0].b, "etc/", DIRECTORY);
	ADD(&l[0].b, "etc/keep", .data = "1");
	ADD(&l[0].b, "etc/gone", .data = "1");
	ADD(&l[0].b, "opt/old/a", .data = "1");
	ADD(&l[0].b, "opt/old/sub/b", .data = "1");
	ADD(&l[0].b, "tree/x/y", .data = "1");
	ADD(&l[0].b, "way", .type = '2', .link = "etc");
	ADD(&l[1].b, "etc/.wh.gone", .data = "");
	ADD(&l[1].b, ".wh.tree", .data = "");
	ADD(&l[1].b, ".wh..wh.plnk", .data = "");
	ADD(&l[1].b, "opt/old/new", .data = "2");	  // before the mark: its own layer's work stays
	ADD(&l[1].b, "opt/old/sub/new", .data = "2");
	ADD(&l[1].b, "opt/old/.wh..wh..opq", .data = "");
	ADD(&l[1].b, "opt/old/later", .data = "2");
	ADD(&l[1].b, "way/", DIRECTORY);
	ADD(&l[1].b, "way/z", .data = "2");
	ADD(&l[2].b, "etc/keep", .data = "3");
	ADD(&l[2].b, "etc/gone", .data = "back");
	ADD(&l[2].b, "etc/.wh.gone", .data = "");	  // of its own layer: no effect
	for (int i = 0; i < 3; i++)
		layer_end(&l[i]);
}

static void check_three(struct place *p)
{
	has(p, "etc/keep", "3");
	has(p, "etc/gone", "back");
	has_not(p, "tree");
	has_not(p, "opt/old/a");
	has_not(p, "opt/old/sub/b");
	has(p, "opt/old/new", "2");
	has(p, "opt/old/sub/new", "2");
	has(p, "opt/old/later", "2");
	has(p, "way/z", "2");
	has_not(p, "etc/z");
	has_not(p, ".wh.tree");
	has_not(p, "etc/.wh.gone");
	has_not(p, "opt/old/.wh..wh..opq");
}

static void put_blob(struct place *p, const char *layout, const char *data, size_t n, char hex[SHA256_HEX])
{
	struct err e;
	auto_free char *dir = xasprintf("%s/blobs/sha256", layout);
	assert_int_equal(fs_mkdirs(p->fd, dir, 0755, &e), 0);
	sha256_hex(data, n, hex);
	auto_free char *name = xasprintf("%s/%s", dir, hex);
	save(p, name, data, n);
}

static void compress(const struct buf *in, struct buf *out, bool zstd)
{
	size_t used = 0;
	struct archive *a = archive_write_new();
	struct archive_entry *ent = archive_entry_new();
	char *room = buf_room(out, 1 << 20);
	archive_write_set_format_raw(a);
	assert_int_equal(zstd ? archive_write_add_filter_zstd(a) : archive_write_add_filter_gzip(a), ARCHIVE_OK);
	archive_write_open_memory(a, room, 1 << 20, &used);
	archive_entry_set_pathname(ent, "x");
	archive_entry_set_filetype(ent, AE_IFREG);
	archive_write_header(a, ent);
	archive_write_data(a, in->p, in->n);
	archive_entry_free(ent);
	archive_write_free(a);
	out->n += used;
}

// Writes the manifest of the layers and returns its descriptor, without platform and closing brace.
static char *put_image(struct place *p, const char *layout, struct layer *l, int n, const char *arch)
{
	char hex[SHA256_HEX];
	auto_buf struct buf config = BUF_INIT(10000), m = BUF_INIT(10000);
	buf_fmt(&config, "{\"os\":\"linux\",\"architecture\":\"%s\"}", arch);
	put_blob(p, layout, config.p, config.n, hex);
	buf_fmt(&m, "{\"schemaVersion\":2,\"config\":{\"digest\":\"sha256:%s\"},\"layers\":[", hex);
	for (int i = 0; i < n; i++) {
		auto_buf struct buf packed = BUF_INIT(2 << 20);
		if (i)
			compress(&l[i].b, &packed, i == 2);
		else
			buf_add(&packed, l[i].b.p, l[i].b.n);
		put_blob(p, layout, packed.p, packed.n, hex);
		buf_fmt(&m, "%s{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",", i ? "," : "");
		buf_fmt(&m, "\"digest\":\"sha256:%s\",\"size\":%zu}", hex, packed.n);
	}
	buf_str(&m, "]}");
	put_blob(p, layout, m.p, m.n, hex);
	return xasprintf("{\"size\":%zu,\"digest\":\"sha256:%s\"", m.n, hex);
}

static void put_index(struct place *p, const char *layout, const char *manifests)
{
	auto_free char *text = xasprintf("{\"schemaVersion\":2,\"manifests\":[%s]}", manifests);
	auto_free char *index = xasprintf("%s/index.json", layout), *mark = xasprintf("%s/oci-layout", layout);
	save(p, index, text, strlen(text));
	save(p, mark, "{\"imageLayoutVersion\":\"1.0.0\"}", 30);
}

static void layers_done(struct layer *l, int n)
{
	for (int i = 0; i < n; i++)
		buf_done(&l[i].b);
}

static void make_oci(struct place *p)
{
	struct layer l[3];
	three_layers(l);
	auto_free char *image = put_image(p, "oci", l, 3, HERE), *other = put_image(p, "oci", l, 2, ELSEWHERE);
	auto_free char *both = xasprintf("%s,\"platform\":{\"os\":\"linux\",\"architecture\":\"" ELSEWHERE "\"}},"
					 "%s,\"platform\":{\"os\":\"unknown\",\"architecture\":\"unknown\"}},"
					 "%s,\"platform\":{\"os\":\"linux\",\"architecture\":\"" HERE "\"}}",
					 other, other, image);
	put_index(p, "oci", both);
	layers_done(l, 3);
}

static void an_oci_layout(void **state)
{
	struct place *p = *state;
	make_oci(p);
	must(p, import(p, "oci"));
	check_three(p);
}

// Puts a directory of plain files into the tar.
static void tar_of(struct place *p, const char *dir)
{
	auto_free char *path = in_place(p, dir), *to = in_place(p, "in.tar");
	struct archive *a = archive_write_new(), *d = archive_read_disk_new();
	struct archive_entry *ent = archive_entry_new();
	archive_write_set_format_ustar(a);
	archive_write_add_filter_gzip(a);
	assert_int_equal(archive_write_open_filename(a, to), ARCHIVE_OK);
	assert_int_equal(archive_read_disk_open(d, path), ARCHIVE_OK);
	while (archive_read_next_header2(d, ent) == ARCHIVE_OK) {
		const void *data;
		size_t n;
		la_int64_t at;
		auto_free char *name = xasprintf("./%s", archive_entry_pathname(ent) + strlen(path));
		archive_read_disk_descend(d);
		archive_entry_set_pathname(ent, name);
		archive_write_header(a, ent);
		bool file = archive_entry_filetype(ent) == AE_IFREG;
		while (file && archive_read_data_block(d, &data, &n, &at) == ARCHIVE_OK)
			archive_write_data(a, data, n);
		archive_entry_clear(ent);
	}
	archive_entry_free(ent);
	archive_read_free(d);
	archive_write_free(a);
}

static void an_oci_layout_in_a_tar(void **state)
{
	struct place *p = *state;
	make_oci(p);
	tar_of(p, "oci");
	must(p, import(p, "in.tar"));
	check_three(p);
}

static void an_index_in_an_index(void **state)
{
	struct place *p = *state;
	struct layer l[3];
	char hex[SHA256_HEX];
	three_layers(l);
	auto_free char *image = put_image(p, "oci", l, 3, HERE);
	auto_free char *inner = xasprintf("{\"manifests\":[%s}]}", image);
	put_blob(p, "oci", inner, strlen(inner), hex);
	auto_free char *outer = xasprintf("{\"digest\":\"sha256:%s\"}", hex);
	put_index(p, "oci", outer);
	must(p, import(p, "oci"));
	check_three(p);
	layers_done(l, 3);
}

static void oci_layouts_that_are_refused(void **state)
{
	struct place *p = *state;
	struct layer l[3];
	three_layers(l);
	auto_free char *image = put_image(p, "oci", l, 3, HERE), *two = put_image(p, "oci", l, 2, HERE);
	auto_free char *wrong = put_image(p, "oci", l, 1, ELSEWHERE);
	struct {
		char *index;
		const char *word;
	} cases[] = {
		{xasprintf("%s},%s}", image, two), "several"},
		{xasprintf("%s}", wrong), ELSEWHERE},
		{xasprintf("%s,\"platform\":{\"os\":\"windows\",\"architecture\":\"" HERE "\"}}", image), "no image"},
		{xasprintf("{\"digest\":\"sha256:../../../../etc/passwd\"}"), "digest"},
		{xasprintf("{\"digest\":\"md5:00\"}"), "sha256"},
		{xasprintf("{\"digest\":\"sha256:%064d\"}", 0), "no readable"},
		{xasprintf("{\"digest\":7}"), "digest"},
		{xasprintf("7"), "digest"},
		{xasprintf("%s", ""), "no image"},
		{xasprintf("]"), "JSON"},
	};
	for (size_t i = 0; i < countof(cases); i++) {
		put_index(p, "oci", cases[i].index);
		must_refuse(p, import(p, "oci"), cases[i].word);
		free(cases[i].index);
	}
	layers_done(l, 3);
}

static void wrong_digests_are_found(void **state)
{
	struct place *p = *state;
	struct layer l[1];
	layer_begin(&l[0]);
	ADD(&l[0].b, "a", .data = "1");
	layer_end(&l[0]);
	auto_free char *image = put_image(p, "oci", l, 1, HERE);
	auto_free char *index = xasprintf("%s}", image), *blob = xasprintf("oci/blobs/sha256/%s", l[0].hex);
	put_index(p, "oci", index);
	must(p, import(p, "oci"));
	again(p);
	l[0].b.p[l[0].b.n - 1] = 1; // after the end of the tar: only the sum tells
	save(p, blob, l[0].b.p, l[0].b.n);
	must_refuse(p, import(p, "oci"), "another content");
	save(p, blob, l[0].b.p, l[0].b.n - 1);
	must_refuse(p, import(p, "oci"), "another size");
	auto_free char *manifest = xasprintf("oci/blobs/sha256/%.64s", strstr(image, "sha256:") + 7);
	save(p, manifest, "{}", 2);
	must_refuse(p, import(p, "oci"), "another content");
	layers_done(l, 1);
}

static void make_docker(struct place *p, const char *arch, bool linked)
{
	struct layer l[3];
	struct err e;
	three_layers(l);
	auto_buf struct buf config = BUF_INIT(10000), m = BUF_INIT(10000);
	assert_int_equal(fs_mkdirs(p->fd, "docker", 0755, &e), 0);
	buf_fmt(&config, "{\"architecture\":\"%s\",\"os\":\"linux\",\"rootfs\":{\"diff_ids\":[", arch);
	buf_fmt(&m, "[{\"Config\":\"%064d.json\",\"RepoTags\":null,\"Layers\":[", 0);
	for (int i = 0; i < 3; i++) {
		auto_free char *dir = xasprintf("docker/%064d", i), *name = xasprintf("%s/layer.tar", dir);
		assert_int_equal(mkdirat(p->fd, dir, 0755), 0);
		if (linked && i == 2) {
			save(p, "docker/shared", l[i].b.p, l[i].b.n);
			assert_int_equal(symlinkat("../shared", p->fd, name), 0);
		} else {
			save(p, name, l[i].b.p, l[i].b.n);
		}
		buf_fmt(&config, "%s\"sha256:%s\"", i ? "," : "", l[i].hex);
		buf_fmt(&m, "%s\"%064d/layer.tar\"", i ? "," : "", i);
	}
	buf_str(&config, "]}}");
	buf_str(&m, "]}]");
	auto_free char *name = xasprintf("docker/%064d.json", 0);
	save(p, name, config.p, config.n);
	save(p, "docker/manifest.json", m.p, m.n);
	layers_done(l, 3);
}

static void a_docker_archive(void **state)
{
	struct place *p = *state;
	make_docker(p, HERE, false);
	tar_of(p, "docker");
	must(p, import(p, "in.tar"));
	check_three(p);
	again(p);
	must(p, import(p, "docker")); // and unpacked
	check_three(p);
}

static void a_docker_archive_with_linked_layers(void **state)
{
	struct place *p = *state;
	make_docker(p, HERE, true);
	must(p, import(p, "docker"));
	check_three(p);
}

static void docker_archives_that_are_refused(void **state)
{
	struct place *p = *state;
	make_docker(p, ELSEWHERE, false);
	must_refuse(p, import(p, "docker"), ELSEWHERE);
	auto_free char *config = xasprintf("docker/%064d.json", 0);
	save(p, config, "{\"rootfs\":{\"diff_ids\":[]}}", 26);
	must_refuse(p, import(p, "docker"), "malformed");
	static const char escape[] = "[{\"Config\":\"../../../../etc/passwd\",\"Layers\":[\"/etc/passwd\"]}]";
	save(p, "docker/manifest.json", escape, sizeof escape - 1);
	must_refuse(p, import(p, "docker"), "no readable");
	static const char two[] = "[{\"Config\":\"a\",\"Layers\":[]},{\"Config\":\"b\",\"Layers\":[]}]";
	save(p, "docker/manifest.json", two, sizeof two - 1);
	must_refuse(p, import(p, "docker"), "several");
	ADD(&p->tar, "manifest.json", .data = "{}");
	must_refuse(p, import_tar(p), "neither");
}

static void a_changed_docker_layer_is_found(void **state)
{
	struct place *p = *state;
	make_docker(p, HERE, false);
	auto_free char *name = xasprintf("docker/%064d/layer.tar", 1);
	ADD(&p->tar, "x", .data = "x");
	end(&p->tar);
	save(p, name, p->tar.p, p->tar.n);
	must_refuse(p, import(p, "docker"), "another content");
}

static int import_layers(struct place *p, struct layer *l, int n)
{
	auto_free char *image = put_image(p, "oci", l, n, HERE), *index = xasprintf("%s}", image);
	put_index(p, "oci", index);
	layers_done(l, n);
	return import(p, "oci");
}

static void hostile_whiteouts(void **state)
{
	struct place *p = *state;
	static const char *const names[] = {".wh...", "a/.wh...", ".wh.", ".wh.."};
	for (size_t i = 0; i < countof(names); i++) {
		struct layer l[1];
		layer_begin(&l[0]);
		ADD(&l[0].b, names[i], .data = "");
		layer_end(&l[0]);
		must_refuse(p, import_layers(p, l, 1), "whiteout of no name");
	}
	static const char *const through[] = {"way/.wh.victim", "way/x/.wh.victim"};
	save(p, "victim", "safe", 4);
	for (size_t i = 0; i < countof(through); i++) {
		struct layer l[2];
		layer_begin(&l[0]);
		layer_begin(&l[1]);
		ADD(&l[0].b, "way", .type = '2', .link = "..");
		ADD(&l[1].b, through[i], .data = "");
		layer_end(&l[0]);
		layer_end(&l[1]);
		must_refuse(p, import_layers(p, l, 2), "refused");
	}
	assert_true(fs_exists(p->fd, "victim"));
}

static void an_opaque_mark_does_not_follow_links(void **state)
{
	struct place *p = *state;
	struct layer l[2];
	struct err e;
	assert_int_equal(fs_mkdirs(p->fd, "precious", 0755, &e), 0);
	save(p, "precious/file", "safe", 4);
	layer_begin(&l[0]);
	layer_begin(&l[1]);
	ADD(&l[0].b, "way", .type = '2', .link = "../precious");
	ADD(&l[0].b, "old/x", .data = "x");
	ADD(&l[1].b, "way/.wh..wh..opq", .data = "");
	ADD(&l[1].b, "absent/.wh..wh..opq", .data = "");
	ADD(&l[1].b, ".wh..wh..opq", .data = ""); // of the root: all before goes
	layer_end(&l[0]);
	layer_end(&l[1]);
	must(p, import_layers(p, l, 2));
	assert_true(fs_exists(p->fd, "precious/file"));
	has_not(p, "old");
	has_not(p, "way");
}

static void paths_in_normal_form(void **state)
{
	(void)state;
	char out[IMAGE_PATH];
	struct err e;
	static const char *const pairs[][2] = {
		{"a", "a"}, {"./a", "a"}, {"/a/b/", "a/b"}, {"a//b/./c", "a/b/c"}, {"/", ""}, {"./", ""}, {".", ""},
		{"...", "..."}, {"..a/b..", "..a/b.."},
	};
	for (size_t i = 0; i < countof(pairs); i++) {
		assert_int_equal(image_path(pairs[i][0], out, &e), 0);
		assert_string_equal(out, pairs[i][1]);
	}
	assert_int_equal(image_path("", out, &e), -1);
	assert_int_equal(image_path(NULL, out, &e), -1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_plain_tar), T(a_directory_is_copied), T(a_directory_that_holds_the_target), T(modes_and_owners),
		T(special_files_are_left_out), T(names_that_are_refused), T(names_too_long_or_too_deep),
		T(control_characters_do_not_reach_the_message), T(nothing_goes_through_a_link),
		T(a_directory_replaces_a_link), T(things_replace_each_other), T(hard_links_stay_inside),
		T(mount_points_must_be_directories), T(extended_attributes_are_dropped), T(utf8_names_in_pax_headers),
		T(damaged_archives), T(too_large_is_refused), T(the_target_must_be_new), T(an_oci_layout),
		T(an_oci_layout_in_a_tar), T(an_index_in_an_index), T(oci_layouts_that_are_refused),
		T(wrong_digests_are_found), T(a_docker_archive), T(a_docker_archive_with_linked_layers),
		T(docker_archives_that_are_refused), T(a_changed_docker_layer_is_found), T(hostile_whiteouts),
		T(an_opaque_mark_does_not_follow_links), T(paths_in_normal_form),
	};
	setlocale(LC_CTYPE, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
