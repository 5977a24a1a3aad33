// SPDX-License-Identifier: Apache-2.0
// Journals of removed sandboxes. A removal leaves the directory journals/ID, which costs two inodes and two blocks. A minute later
// its journal is deflated and appended to the file of the day on which the sandbox was removed, and the directory goes once that is
// on the disk:
//
//   journals/ID/journal ──pack──▶ journals/2026-11-19.z + a line in journals/2026-11-19.index ──synced──▶ journals/ID removed
//   journals/ID/journal ◀──thaw── (somebody asks for it; a minute later it goes again)
//
// Directories that hold more than a journal (the shadow repository that a fork or a snapshot still needs), and journals over
// ARCHIVE_RAW_MAX, stay as they are. gc removes files of days that are over, and the oldest ones when the disk budget is used up.
#include "engine/heritage_int.h"
#include "journal/archive.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define PACK_MS 60000 // behind a removal, or behind the last look at a journal
#define AT_ONCE 50    // journals in one round

struct round {
	struct engine *g;
	char **dirs; // to be removed when what was packed is on the disk
};

static void archive_on_time(struct timer *t);

void archive_arm(struct engine *g)
{
	g->archive.fn = archive_on_time;
	if (!g->archive.at_ms)
		timer_set(g->loop, &g->archive, PACK_MS);
}

// --- names ---

static void archive_day(uint64_t unix_ms, char out[16])
{
	struct tm tm;
	time_t t = (time_t)(unix_ms / 1000);
	gmtime_r(&t, &tm);
	if (!strftime(out, 16, "%Y-%m-%d", &tm))
		out[0] = 0;
}

bool archive_is_name(const char *name)
{
	size_t n = strspn(name, "0123456789-");
	return n == 10 && name[4] == '-' && name[7] == '-' && (!strcmp(name + n, ".z") || !strcmp(name + n, ".index"));
}

static int archive_open_day(struct engine *g, const char *day, const char *suffix, int flags)
{
	auto_free char *name = xasprintf("%s%s", day, suffix);
	return openat(g->journals, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
}

// --- packing ---

static bool archive_read_journal(int dir, struct buf *out)
{
	struct err e;
	auto_fd int fd = openat(dir, "journal", O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	return fd >= 0 && !fs_read_fd(fd, out, &e);
}

// Only what a removal leaves: anything else is somebody's.
static bool archive_dir_is_plain(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	bool only = d;
	while (d && only && (ent = readdir(d)))
		only = !strcmp(ent->d_name, ".") || !strcmp(ent->d_name, "..") || !strcmp(ent->d_name, "journal") || !strcmp(ent->d_name, "row");
	if (d)
		closedir(d);
	return only;
}

static void archive_entry_of(const char *id, const struct buf *raw, struct archive_entry *out)
{
	struct sha256 h;
	uint8_t sum[32];
	*out = (struct archive_entry){.raw = raw->n};
	memcpy(out->id, id, strlen(id) + 1);
	sha256_init(&h);
	sha256_add(&h, raw->p, raw->n);
	sha256_end(&h, sum);
	str_hex(out->sha256, sum, sizeof sum);
}

// The bytes first: a line without its bytes would be a journal that is damaged.
static int archive_append(struct engine *g, const char *day, struct archive_entry *en, const struct buf *raw, struct err *e)
{
	uLongf len = compressBound(raw->n);
	auto_free char *packed = xcalloc(1, len + 1);
	auto_buf struct buf line = BUF_INIT(2 * ARCHIVE_LINE_MAX);
	struct stat st;
	auto_fd int z = archive_open_day(g, day, ".z", O_WRONLY | O_CREAT | O_APPEND), index = archive_open_day(g, day, ".index", O_WRONLY | O_CREAT | O_APPEND);
	if (z < 0 || index < 0 || fstat(z, &st))
		return err_sys(e, "open the archive of %s", day);
	if (compress2((Bytef *)packed, &len, (const Bytef *)raw->p, raw->n, 6) != Z_OK)
		return err_set(e, ERR_SYSTEM, "the journal of %s can not be compressed", en->id);
	en->offset = (uint64_t)st.st_size;
	en->length = len;
	archive_line_write(&line, en);
	if (fs_write_all(z, packed, len, e)) {
		if (ftruncate(z, st.st_size))
			return -1; // the next one begins behind what is there
		return -1;
	}
	return fs_write_all(index, line.p, line.n, e);
}

static bool archive_has(struct engine *g, const char *day, const struct archive_entry *en)
{
	struct archive_entry have;
	struct err e;
	auto_fd int index = archive_open_day(g, day, ".index", O_RDONLY);
	return index >= 0 && archive_find(index, en->id, &have, &e) == 1 && have.raw == en->raw && !strcmp(have.sha256, en->sha256);
}

static bool archive_is_due(struct engine *g, const char *id, bool at_once)
{
	struct stat st;
	if (fstatat(g->journals, id, &st, AT_SYMLINK_NOFOLLOW))
		return false;
	uint64_t changed = (uint64_t)st.st_ctim.tv_sec * 1000 + (uint64_t)st.st_ctim.tv_nsec / 1000000;
	return at_once || changed + PACK_MS <= clock_unix_ms();
}

// True: its directory may go.
static bool archive_pack(struct engine *g, const char *id)
{
	struct err e;
	struct gone_row gone;
	struct archive_entry en;
	char day[16];
	auto_buf struct buf raw = BUF_INIT(ARCHIVE_RAW_MAX);
	auto_fd int dir = openat(g->journals, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || store_gone_get(g->store, id, &gone, &e) || strcmp(gone.id, id) || !archive_dir_is_plain(dir) || !archive_read_journal(dir, &raw))
		return false;
	archive_day(gone.removed, day);
	archive_entry_of(id, &raw, &en);
	if (archive_has(g, day, &en))
		return true;
	if (!archive_append(g, day, &en, &raw, &e))
		return true;
	log_line(LOG_WARN, "journal of %s is not packed: %s", id, e.msg);
	return false;
}

static void archive_synced(void *ctx, const struct err *e)
{
	struct round *r = ctx;
	if (!e && r->dirs)
		engine_discard(r->g, r->dirs);
	strv_free(r->dirs);
	free(r);
}

// True: there are more.
static bool archive_pack_some(struct engine *g, bool at_once)
{
	struct round *r = xcalloc(1, sizeof *r);
	struct index heirs = {0};
	char **own = NULL;
	int n = 0, fd = openat(g->journals, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool all_needed = !heritage_all(g, &heirs, &own), later = false;
	DIR *d = fd < 0 || all_needed ? NULL : fdopendir(fd);
	struct dirent *ent;
	r->g = g;
	while (d && n < AT_ONCE && (ent = readdir(d))) {
		if (!id_is(ent->d_name) || box_by_id(g, ent->d_name) || index_get(&heirs, ent->d_name))
			continue;
		if (!archive_is_due(g, ent->d_name, at_once)) {
			later = true;
		} else if (archive_pack(g, ent->d_name)) {
			auto_free char *path = xasprintf("journals/%s", ent->d_name);
			strv_add(&r->dirs, path);
			n++;
		}
	}
	if (d)
		closedir(d);
	else
		close_fd(&fd);
	index_done(&heirs);
	strv_free(own);
	if (n) {
		sync_journal(g, "journals");
		sync_rows(g, (struct reply){archive_synced, r});
		archive_count(g);
	} else {
		free(r);
	}
	if (later || n == AT_ONCE)
		archive_arm(g);
	return n == AT_ONCE;
}

static void archive_on_time(struct timer *t)
{
	struct engine *g = container_of(t, struct engine, archive);
	if (archive_pack_some(g, false))
		timer_set(g->loop, &g->archive, 1000);
}

void archive_all(struct engine *g)
{
	archive_pack_some(g, true);
}

// --- reading ---

// Never more than the journal's length, which is bounded: what the index says of it is not believed further.
static int archive_inflate(int z, const struct archive_entry *en, int out, struct err *e)
{
	unsigned char in[16384], raw[65536];
	z_stream s = {0};
	struct sha256 h;
	uint8_t sum[32];
	char hex[SHA256_HEX];
	uint64_t at = en->offset, left = en->length, total = 0;
	int rc = inflateInit(&s);
	sha256_init(&h);
	while (rc == Z_OK && left) {
		ssize_t n = pread(z, in, left < sizeof in ? (size_t)left : sizeof in, (off_t)at);
		if (n <= 0)
			break;
		at += (uint64_t)n;
		left -= (uint64_t)n;
		s.next_in = in;
		s.avail_in = (unsigned)n;
		do {
			s.next_out = raw;
			s.avail_out = sizeof raw;
			rc = inflate(&s, Z_NO_FLUSH);
			size_t got = sizeof raw - s.avail_out;
			total += got;
			if ((rc != Z_OK && rc != Z_STREAM_END) || total > en->raw || fs_write_all(out, raw, got, e)) {
				rc = Z_DATA_ERROR;
				break;
			}
			sha256_add(&h, raw, got);
		} while (rc == Z_OK && !s.avail_out);
	}
	inflateEnd(&s);
	sha256_end(&h, sum);
	str_hex(hex, sum, sizeof sum);
	if (rc != Z_STREAM_END || total != en->raw || strcmp(hex, en->sha256))
		return err_set(e, ERR_SYSTEM, "the archived journal of %s is damaged", en->id);
	return 0;
}

// Back into a directory of its own, where every reader finds it.
int archive_thaw(struct engine *g, const struct gone_row *gone, struct err *e)
{
	char day[16];
	struct archive_entry en;
	archive_day(gone->removed, day);
	auto_fd int index = archive_open_day(g, day, ".index", O_RDONLY), z = archive_open_day(g, day, ".z", O_RDONLY);
	int found = index < 0 || z < 0 ? 0 : archive_find(index, gone->id, &en, e);
	if (found <= 0)
		return found ? -1 : err_set(e, ERR_NOT_FOUND, "sandbox %s was removed and its journal is no longer kept", gone->id);
	auto_free char *partial = xasprintf("%s.partial", gone->id), *file = xasprintf("%s/journal", partial);
	if (fs_mkdirs(g->journals, partial, 0700, e))
		return -1;
	auto_fd int out = fs_open(g->journals, file, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, e);
	int rc = out < 0 ? -1 : archive_inflate(z, &en, out, e);
	if (!rc && renameat(g->journals, partial, g->journals, gone->id))
		rc = err_sys(e, "put the journal of %s back", gone->id);
	if (rc) {
		unlinkat(g->journals, file, 0);
		unlinkat(g->journals, partial, AT_REMOVEDIR);
		return -1;
	}
	archive_arm(g);
	return fs_open(g->journals, gone->id, O_RDONLY | O_DIRECTORY, 0, e);
}

// --- gc ---

void archive_count(struct engine *g)
{
	int fd = openat(g->journals, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *ent;
	struct stat st;
	uint64_t sum = 0;
	while (d && (ent = readdir(d)))
		if (archive_is_name(ent->d_name) && !fstatat(fd, ent->d_name, &st, AT_SYMLINK_NOFOLLOW))
			sum += (uint64_t)st.st_size;
	if (d)
		closedir(d);
	g->archived = sum;
}

static void archive_on_forgotten(void *ctx, const struct archive_entry *en)
{
	struct err e;
	struct engine *g = ctx;
	if (!fs_exists(g->journals, en->id) && store_gone_drop(g->store, en->id, &e))
		log_line(LOG_ERROR, "%s", e.msg);
}

// Before its index goes: rows of removed sandboxes whose journal nobody has any more.
void archive_forget(struct engine *g, const char *name)
{
	struct err e;
	auto_fd int fd = openat(g->journals, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (str_has_suffix(name, ".index") && fd >= 0 && archive_each(fd, archive_on_forgotten, g, &e))
		log_line(LOG_WARN, "%s", e.msg);
	engine_wrote(g);
}
