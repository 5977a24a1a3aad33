// SPDX-License-Identifier: Apache-2.0
// A blob with a wrong digest is removed together with its part, at once. One that was continued is asked for once more
// from its beginning first: its beginning may be what is wrong.
#include "pull/layout.h"

#include "base/fs.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define BLOBS "blobs/sha256"
#define DISK_SPARE (512ULL << 20)
#define DISK_CHECK (16u << 20) // bytes between two looks at the disk
#define LOCK_TRIES 100
#define LOCK_STEP_US 100000
#define READ_SIZE (64u << 10)

// skep-pull of a skepd that was killed ends by itself, a moment later.
static int layout_lock(int dir, struct err *e)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (!flock(dir, LOCK_EX | LOCK_NB))
			return 0;
		if (errno != EWOULDBLOCK)
			return err_sys(e, "lock the pull's directory");
		usleep(LOCK_STEP_US);
	}
	return err_set(e, ERR_CONFLICT, "another process pulls this image: try again");
}

int pull_layout_open(int dir, struct pull_layout *out, struct err *e)
{
	struct pull_layout l = {dir, -1};
	if (!layout_lock(dir, e) && !fs_mkdirs(dir, BLOBS, 0700, e))
		l.blobs = fs_open(dir, BLOBS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	if (l.blobs < 0) {
		pull_layout_close(&l);
		return -1;
	}
	*out = l;
	return 0;
}

void pull_layout_close(struct pull_layout *l)
{
	close_fd(&l->blobs);
	close_fd(&l->dir);
}

int pull_layout_room(const struct pull_layout *l, uint64_t wanted, struct err *e)
{
	struct statvfs v;
	if (fstatvfs(l->dir, &v))
		return err_sys(e, "look at the disk");
	uint64_t left = (uint64_t)v.f_bavail * v.f_frsize;
	if (left >= DISK_SPARE && left - DISK_SPARE >= wanted)
		return 0;
	return err_set(e, ERR_LIMIT, "the disk has %llu MiB left: the image needs %llu MiB and 512 MiB stay free; `skep gc`, `skep image rm` and "
		       "`skep rm` make room", (unsigned long long)(left >> 20), (unsigned long long)(wanted >> 20));
}

static int layout_digest_fault(const struct pull_blob *b, const char *got, struct err *e)
{
	return err_set(e, ERR_INVALID, "the registry sent another content for %s: sha256:%s; nothing of it was kept", b->digest, got);
}

int pull_layout_put(struct pull_layout *l, const struct pull_blob *b, const struct buf *bytes, struct err *e)
{
	char got[SHA256_HEX];
	sha256_hex(bytes->n ? bytes->p : "", bytes->n, got);
	if (strcmp(got, pull_blob_hex(b)))
		return layout_digest_fault(b, got, e);
	return fs_replace(l->blobs, pull_blob_hex(b), bytes->n ? bytes->p : "", bytes->n, 0600, e);
}

int pull_layout_finish(struct pull_layout *l, const struct pull_manifest *m, const struct pull_blob *manifest, struct err *e)
{
	static const char layout[] = "{\"imageLayoutVersion\":\"1.0.0\"}";
	auto_buf struct buf b = BUF_INIT(4096);
	struct jsonw w = {.b = &b};
	jw_open(&w, '{');
	jw_ku64(&w, "schemaVersion", 2);
	jw_key(&w, "manifests");
	jw_open(&w, '[');
	jw_open(&w, '{');
	jw_kstr(&w, "mediaType", m->media_type);
	jw_kstr(&w, "digest", manifest->digest);
	jw_ku64(&w, "size", manifest->size);
	jw_close(&w, '}');
	jw_close(&w, ']');
	jw_close(&w, '}');
	if (fs_replace(l->dir, "index.json", b.p, b.n, 0600, e))
		return -1;
	return fs_replace(l->dir, "oci-layout", layout, sizeof layout - 1, 0600, e);
}

// --- a blob ---

static void incoming_part(const struct pull_incoming *in, char name[SHA256_HEX + 8])
{
	memcpy(name, pull_blob_hex(&in->blob), SHA256_HEX - 1);
	memcpy(name + SHA256_HEX - 1, ".part", 6);
}

static void incoming_remove(struct pull_incoming *in)
{
	char part[SHA256_HEX + 8];
	incoming_part(in, part);
	unlinkat(in->layout->blobs, part, 0);
	unlinkat(in->layout->blobs, pull_blob_hex(&in->blob), 0);
}

static int incoming_restart(struct pull_incoming *in, struct err *e)
{
	if (ftruncate(in->fd, 0) || lseek(in->fd, 0, SEEK_SET))
		return err_sys(e, "begin a blob again");
	sha256_init(&in->sum);
	in->at = in->kept = 0;
	in->resumed = false;
	return 0;
}

// Compares what is whole and gives it its name. 1: what was continued is wrong, and asked for once more.
static int incoming_settle(struct pull_incoming *in, struct err *e)
{
	char got[SHA256_HEX], part[SHA256_HEX + 8];
	struct sha256 sum = in->sum;
	sha256_end_hex(&sum, got);
	if (strcmp(got, pull_blob_hex(&in->blob))) {
		if (in->resumed)
			return incoming_restart(in, e) ? -1 : 1;
		incoming_remove(in);
		return layout_digest_fault(&in->blob, got, e);
	}
	incoming_part(in, part);
	if (renameat(in->layout->blobs, part, in->layout->blobs, pull_blob_hex(&in->blob)))
		return err_sys(e, "keep a blob");
	in->done = true;
	close_fd(&in->fd);
	return 0;
}

static int incoming_read(struct pull_incoming *in, struct err *e)
{
	char bytes[READ_SIZE];
	ssize_t n;
	while ((n = read(in->fd, bytes, sizeof bytes)) > 0) {
		sha256_add(&in->sum, bytes, (size_t)n);
		in->at += (uint64_t)n;
	}
	return n < 0 ? err_sys(e, "read what an earlier pull left") : 0;
}

// A whole blob of an earlier pull is made a part again until it was compared.
static int incoming_open_part(struct pull_incoming *in, struct err *e)
{
	char part[SHA256_HEX + 8];
	struct stat st;
	incoming_part(in, part);
	if (renameat(in->layout->blobs, pull_blob_hex(&in->blob), in->layout->blobs, part) && errno != ENOENT)
		return err_sys(e, "take up an earlier pull");
	in->fd = openat(in->layout->blobs, part, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (in->fd < 0 || fstat(in->fd, &st))
		return err_sys(e, "open a blob's part");
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > in->blob.size)
		return incoming_restart(in, e);
	return incoming_read(in, e);
}

int pull_incoming_open(struct pull_layout *l, const struct pull_blob *b, struct pull_incoming *out, struct err *e)
{
	struct pull_incoming in = {.layout = l, .blob = *b, .fd = -1};
	sha256_init(&in.sum);
	if (incoming_open_part(&in, e)) {
		pull_incoming_close(&in);
		return -1;
	}
	in.kept = in.at;
	in.resumed = in.at > 0;
	if (in.resumed && in.at == b->size && incoming_settle(&in, e) < 0) {
		pull_incoming_close(&in);
		return -1;
	}
	*out = in;
	return 0;
}

void pull_incoming_close(struct pull_incoming *in)
{
	close_fd(&in->fd);
}

static int incoming_begin(void *ctx, bool continued, struct err *e)
{
	struct pull_incoming *in = ctx;
	if (continued || !in->at)
		return 0;
	return incoming_restart(in, e); // the server gives all of it again
}

static int incoming_data(void *ctx, const char *p, size_t n, struct err *e)
{
	struct pull_incoming *in = ctx;
	if (n > in->blob.size - in->at) {
		incoming_remove(in);
		return err_set(e, ERR_INVALID, "the registry sends more for %s than the %llu bytes that its manifest says", in->blob.digest,
			       (unsigned long long)in->blob.size);
	}
	if (in->moved / DISK_CHECK != (in->moved + n) / DISK_CHECK && pull_layout_room(in->layout, 0, e))
		return -1;
	if (fs_write_all(in->fd, p, n, e))
		return err_wrap(e, "write the image's layers");
	sha256_add(&in->sum, p, n);
	in->at += n;
	in->moved += n;
	return 0;
}

static int incoming_end(void *ctx, struct err *e)
{
	struct pull_incoming *in = ctx;
	if (in->at == in->blob.size)
		return incoming_settle(in, e);
	incoming_remove(in);
	return err_set(e, ERR_INVALID, "the registry sends %llu bytes for %s: its manifest says %llu", (unsigned long long)in->at, in->blob.digest,
		       (unsigned long long)in->blob.size);
}

static uint64_t incoming_offset(void *ctx)
{
	return ((struct pull_incoming *)ctx)->at;
}

struct pull_sink pull_incoming_sink(struct pull_incoming *in)
{
	return (struct pull_sink){incoming_begin, incoming_data, incoming_end, incoming_offset, in};
}
