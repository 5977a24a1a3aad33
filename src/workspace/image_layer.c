// SPDX-License-Identifier: Apache-2.0
#include "workspace/image_layer.h"

#include "base/mem.h"
#include "base/str.h"
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define MAX_NAMES 10000 // entries looked at to tell a layout from a root file system

struct input {
	int fd;
	bool hashed;
	struct sha256 sha;
	char chunk[64 << 10];
};

// Where entries come from.
struct origin {
	struct archive *a;
	size_t prefix; // bytes of every name that are the source's own
	bool layered;
};

static int failed(struct archive *a, const char *what, struct err *e)
{
	char shown[200];
	const char *why = archive_error_string(a);
	int sys = archive_errno(a);
	if (sys == ENOSPC || sys == EDQUOT)
		return err_set(e, ERR_LIMIT, "%s: no space left", what);
	return err_set(e, ERR_INVALID, "%s: %s", what, image_show(why ? why : "not readable", shown));
}

static la_ssize_t read_input(struct archive *a, void *arg, const void **out)
{
	struct input *in = arg;
	ssize_t n;
	do
		n = read(in->fd, in->chunk, sizeof in->chunk);
	while (n < 0 && errno == EINTR);
	if (n < 0) {
		archive_set_error(a, errno, "read failed");
		return -1;
	}
	if (in->hashed)
		sha256_add(&in->sha, in->chunk, (size_t)n);
	*out = in->chunk;
	return n;
}

// What is not built in, libarchive does with programs of the host: so each one is named, and none of those.
static struct archive *open_tar(struct input *in, struct err *e)
{
	struct archive *a = archive_read_new();
	if (!a) {
		err_set(e, ERR_SYSTEM, "no memory for an archive");
		return NULL;
	}
	archive_read_support_format_tar(a);
	archive_read_support_filter_gzip(a);
	archive_read_support_filter_bzip2(a);
	archive_read_support_filter_xz(a);
	archive_read_support_filter_lzma(a);
	archive_read_support_filter_lz4(a);
	archive_read_support_filter_zstd(a);
	sha256_init(&in->sha);
	if (archive_read_open(a, in, NULL, read_input, NULL) == ARCHIVE_OK)
		return a;
	failed(a, "not a tar archive", e);
	archive_read_free(a);
	return NULL;
}

static int write_at(int fd, const char *p, size_t n, int64_t at, struct err *e)
{
	while (n) {
		ssize_t w = pwrite(fd, p, n, at);
		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return err_sys(e, "write");
		p += w;
		n -= (size_t)w;
		at += w;
	}
	return 0;
}

// Blocks come with their offsets: holes stay holes on disk, but count as bytes.
static int copy_data(struct image_tree *t, struct archive *a, struct archive_entry *ent, int fd, struct err *e)
{
	uint64_t end = 0;
	for (;;) {
		const void *p;
		size_t n;
		la_int64_t at;
		int rc = archive_read_data_block(a, &p, &n, &at);
		if (rc == ARCHIVE_EOF)
			break;
		if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
			return failed(a, "its content", e);
		if (at < 0 || (uint64_t)at < end)
			return err_set(e, ERR_INVALID, "its content is out of order");
		if (image_tree_charge(t, (uint64_t)at - end + n, e) || write_at(fd, p, n, at, e))
			return -1;
		end = (uint64_t)at + n;
	}
	int64_t size = archive_entry_size_is_set(ent) ? archive_entry_size(ent) : 0;
	if (size <= (int64_t)end)
		return 0;
	if (image_tree_charge(t, (uint64_t)size - end, e))
		return -1;
	return ftruncate(fd, size) ? err_sys(e, "set size") : 0;
}

static struct image_meta meta_of(struct archive_entry *ent)
{
	struct image_meta m = {
		.mode = archive_entry_perm(ent),
		.uid = (uint64_t)archive_entry_uid(ent), // negative ones are large ones here
		.gid = (uint64_t)archive_entry_gid(ent),
		.mtime = {archive_entry_mtime(ent), archive_entry_mtime_nsec(ent)},
	};
	if (m.mtime.tv_sec < 0 || m.mtime.tv_sec >= 1LL << 33)
		m.mtime.tv_sec = 0;
	if (m.mtime.tv_nsec < 0 || m.mtime.tv_nsec > 999999999)
		m.mtime.tv_nsec = 0;
	return m;
}

static int put_file(struct image_tree *t, struct archive *a, struct archive_entry *ent, const char *path, struct err *e)
{
	const struct image_meta m = meta_of(ent);
	auto_fd int fd = image_tree_file(t, path, e);
	if (fd < 0 || copy_data(t, a, ent, fd, e))
		return -1;
	return image_tree_file_end(t, fd, &m, e);
}

static int put_whiteout(struct image_tree *t, const char *path, struct err *e)
{
	char victim[IMAGE_PATH];
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t dir = (size_t)(name - path);
	if (!strcmp(name, ".wh..wh..opq")) {
		auto_free char *parent = xstrndup(path, dir ? dir - 1 : 0);
		return image_tree_opaque(t, parent, e);
	}
	if (str_has_prefix(name, ".wh..wh."))
		return 0; // book-keeping of one storage driver
	name += strlen(".wh.");
	if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
		return err_set(e, ERR_INVALID, "a whiteout of no name");
	memcpy(victim, path, dir);
	memcpy(victim + dir, name, strlen(name) + 1);
	return image_tree_whiteout(t, victim, e);
}

static const char *own_part(const char *raw, size_t prefix)
{
	if (!raw || !prefix)
		return raw;
	return strlen(raw) > prefix ? raw + prefix : ".";
}

static bool is_whiteout(const char *path)
{
	const char *slash = strrchr(path, '/');
	return str_has_prefix(slash ? slash + 1 : path, ".wh.");
}

static int put_entry(struct image_tree *t, const struct origin *o, struct archive_entry *ent, const char *path,
		     struct err *e)
{
	const char *link = own_part(archive_entry_hardlink(ent), o->prefix);
	const struct image_meta m = meta_of(ent);
	char target[IMAGE_PATH];
	if (o->layered && is_whiteout(path))
		return put_whiteout(t, path, e);
	if (link)
		return image_path(link, target, e) ? -1 : image_tree_link(t, path, target, e);
	switch (archive_entry_filetype(ent)) {
	case AE_IFREG:
		return put_file(t, o->a, ent, path, e);
	case AE_IFDIR:
		return image_tree_dir(t, path, &m, e);
	case AE_IFLNK:
		return image_tree_symlink(t, path, archive_entry_symlink(ent), &m, e);
	default:
		return image_tree_skip(t, e);
	}
}

static int apply_entry(struct image_tree *t, const struct origin *o, struct archive_entry *ent, struct err *e)
{
	char path[IMAGE_PATH], shown[200];
	if (image_path(own_part(archive_entry_pathname(ent), o->prefix), path, e))
		return -1;
	if (!put_entry(t, o, ent, path, e))
		return 0;
	return str_has_prefix(e->msg, "entry ") ? -1 : err_wrap(e, "entry \"%s\"", image_show(path, shown));
}

static int apply_all(struct image_tree *t, const struct origin *o, struct err *e)
{
	for (;;) {
		struct archive_entry *ent;
		int rc = archive_read_next_header(o->a, &ent);
		if (rc == ARCHIVE_EOF)
			return 0;
		if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
			return failed(o->a, "the archive is damaged", e);
		// Content that is passed over is decompressed all the same.
		if (archive_filter_bytes(o->a, 0) > (la_int64_t)(2 * IMAGE_BYTES) ||
		    archive_entry_size(ent) > (la_int64_t)IMAGE_BYTES)
			return err_set(e, ERR_LIMIT, "the archive is larger than %llu GiB", IMAGE_BYTES >> 30);
		if (apply_entry(t, o, ent, e))
			return -1;
	}
}

static int check_sum(struct input *in, struct archive *a, const struct layer_sum *sum, struct err *e)
{
	char got[SHA256_HEX];
	const void *p;
	la_ssize_t n;
	while ((n = read_input(a, in, &p)) > 0)
		; // what stands after the end of the tar is part of the sum
	if (n < 0)
		return failed(a, "the archive", e);
	if (sum->kind == CHECK_PLAIN && archive_filter_code(a, 0) != ARCHIVE_FILTER_NONE)
		return 0;
	sha256_end_hex(&in->sha, got);
	if (strcmp(got, sum->hex))
		return err_set(e, ERR_INVALID, "layer sha256:%s has another content: sha256:%s", sum->hex, got);
	return 0;
}

int image_layer_apply(struct image_tree *t, int fd, bool layered, const struct layer_sum *sum, struct err *e)
{
	auto_free struct input *in = xcalloc(1, sizeof *in);
	in->fd = fd;
	in->hashed = sum->kind != CHECK_NONE;
	struct origin o = {.a = open_tar(in, e), .layered = layered};
	if (!o.a)
		return -1;
	if (layered)
		image_tree_layer(t);
	int rc = apply_all(t, &o, e);
	if (!rc && in->hashed)
		rc = check_sum(in, o.a, sum, e);
	archive_read_free(o.a);
	return rc;
}

static int copy_entries(struct image_tree *t, const struct origin *o, struct archive_entry_linkresolver *links,
			struct archive_entry *ent, struct err *e)
{
	struct stat root;
	if (fstat(t->root, &root))
		return err_sys(e, "stat");
	for (;;) {
		struct archive_entry *spare = NULL, *one = ent;
		archive_entry_clear(ent);
		int rc = archive_read_next_header2(o->a, ent);
		if (rc == ARCHIVE_EOF)
			return 0;
		if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
			return failed(o->a, "the directory", e);
		if (archive_entry_dev(ent) == root.st_dev && (ino_t)archive_entry_ino64(ent) == root.st_ino)
			return err_set(e, ERR_INVALID, "the directory holds the place where images are kept");
		archive_read_disk_descend(o->a);
		archive_entry_linkify(links, &one, &spare);
		if (apply_entry(t, o, ent, e))
			return -1;
	}
}

int image_layer_copy(struct image_tree *t, const char *source, struct err *e)
{
	size_t n = strlen(source);
	while (n > 1 && source[n - 1] == '/')
		n--;
	auto_free char *top = xstrndup(source, n);
	struct origin o = {.a = archive_read_disk_new(), .prefix = strcmp(top, "/") ? n : 0};
	if (!o.a)
		return err_set(e, ERR_SYSTEM, "no memory for an archive");
	archive_read_disk_set_symlink_hybrid(o.a); // only the source itself may be a link
	archive_read_disk_set_behavior(o.a, ARCHIVE_READDISK_NO_TRAVERSE_MOUNTS | ARCHIVE_READDISK_NO_XATTR |
						    ARCHIVE_READDISK_NO_ACL | ARCHIVE_READDISK_NO_FFLAGS);
	struct archive_entry_linkresolver *links = archive_entry_linkresolver_new();
	archive_entry_linkresolver_set_strategy(links, ARCHIVE_FORMAT_TAR_GNUTAR);
	struct archive_entry *ent = archive_entry_new();
	bool opened = archive_read_disk_open(o.a, top) == ARCHIVE_OK;
	int rc = opened ? copy_entries(t, &o, links, ent, e) : failed(o.a, top, e);
	archive_entry_free(ent);
	archive_entry_linkresolver_free(links);
	archive_read_free(o.a);
	return rc;
}

static bool is_hex64(const char *s)
{
	return strspn(s, "0123456789abcdef") >= 64;
}

// -1: a root file system has this, 1: a layout has this and it decides, 0: both may.
static int judge_name(const char *raw)
{
	char path[IMAGE_PATH];
	struct err e;
	if (image_path(raw, path, &e))
		return -1;
	if (!strcmp(path, "manifest.json") || !strcmp(path, "oci-layout"))
		return 1;
	char *slash = strchr(path, '/');
	if (slash)
		*slash = 0;
	static const char *const also[] = {"", "blobs", "index.json", "repositories", "config.json"};
	for (size_t i = 0; i < countof(also); i++)
		if (!strcmp(path, also[i]))
			return 0;
	return is_hex64(path) || str_has_prefix(path, "sha256:") ? 0 : -1;
}

int image_layer_is_layout(int fd, struct err *e)
{
	auto_free struct input *in = xcalloc(1, sizeof *in);
	struct archive_entry *ent;
	int verdict = 0, rc = ARCHIVE_OK;
	in->fd = fd;
	struct archive *a = open_tar(in, e);
	if (!a)
		return -1;
	for (int i = 0; i < MAX_NAMES && !verdict; i++) {
		rc = archive_read_next_header(a, &ent);
		if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
			break;
		verdict = judge_name(archive_entry_pathname(ent));
	}
	if (!verdict && rc != ARCHIVE_EOF && rc < ARCHIVE_WARN)
		rc = failed(a, "the archive is damaged", e);
	else
		rc = 0;
	archive_read_free(a);
	if (!rc && lseek(fd, 0, SEEK_SET) < 0)
		rc = err_sys(e, "rewind the archive");
	return rc ? -1 : verdict == 1;
}
