// SPDX-License-Identifier: Apache-2.0
// volume: directories that skep keeps, and shows in as many sandboxes as wanted. cp goes file by file over the API. What comes out
// of a volume was written in cells: it is made in a fresh directory, and only the name that was asked for is moved from there.
#include "base/fs.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/api.h"
#include "cli/listing.h"
#include "cli/place.h"
#include "cli/verbs.h"
#include "model/volume.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_DEPTH 200 // directories below each other

struct volume_opts {
	bool json, quiet;
};

static const struct opt volume_ls_opts[] = {
	FLAG(AT(struct volume_opts, quiet), "quiet", 'q', "print names only"),
	FLAG(AT(struct volume_opts, json), "json", 0, "print JSON"),
	OPTS_END,
};

static const struct opt volume_create_opts[] = {
	FLAG(AT(struct volume_opts, json), "json", 0, "print the whole volume, not only its id"),
	OPTS_END,
};

static void volume_ls_row(struct table *t, const json_t *v)
{
	auto_buf struct buf size = BUF_INIT(64);
	const json_t *bytes = json_object_get(v, "bytes");
	if (json_is_integer(bytes))
		out_size(&size, (uint64_t)json_integer_value(bytes));
	table_add(t, json_str(v, "name"));
	table_add(t, json_str(v, "id"));
	table_add(t, size.n ? buf_cstr(&size) : "?");
	table_add_u64(t, json_array_size(json_object_get(v, "sandboxes")));
	table_add(t, json_str(v, "created"));
}

static int volume_ls_run(const struct call *c)
{
	static const char *const heads[] = {"NAME", "ID", "SIZE", "SANDBOXES", "CREATED", NULL};
	const struct volume_opts *o = c->opts;
	return listing_run(c, &(struct listing){.path = "/v1/volumes", .member = "volumes", .id = "name", .heads = heads, .row = volume_ls_row,
						.json = o->json, .quiet = o->quiet});
}

static int volume_create_run(const struct call *c)
{
	const struct volume_opts *o = c->opts;
	struct err e;
	auto_api struct api a = API_CLOSED;
	auto_buf struct buf body = BUF_INIT(64 << 10);
	struct jsonw w = {.b = &body};
	jw_open(&w, '{');
	jw_kstr(&w, "name", c->words[0]);
	jw_close(&w, '}');
	auto_json json_t *j = api_open(&a, &e) ? NULL : api_json(&a, "POST", "/v1/volumes", buf_cstr(&body), &e);
	if (!j)
		return out_fail(c, &e);
	if (o->json)
		return out_json(j);
	auto_buf struct buf b = BUF_INIT(256);
	buf_fmt(&b, "%s\n", json_str(j, "id"));
	return out_flush(&b);
}

static int volume_rm_run(const struct call *c)
{
	return listing_remove(c, "/v1/volumes");
}

// --- cp ---

struct volume_side {
	char *volume; // NULL = here
	char *path;   // without slashes at its end; of a volume from its top on, "" = the top
	bool slash;   // there was one: it must be a directory
};

struct volume_copy {
	struct api *api;
	const char *volume;
	unsigned skipped; // links, devices and the like
};

// A copy that is interrupted ends behind the file it is at, and takes its unfinished directory away.
static volatile sig_atomic_t volume_interrupted;

static void volume_on_signal(int sig)
{
	volume_interrupted = sig;
}

static void volume_catch_signals(void)
{
	struct sigaction a = {.sa_handler = volume_on_signal, .sa_flags = SA_RESTART};
	sigaction(SIGINT, &a, NULL);
	sigaction(SIGTERM, &a, NULL);
	sigaction(SIGHUP, &a, NULL);
}

static int volume_check_going(const char *path, int depth, struct err *e)
{
	if (volume_interrupted)
		return err_set(e, ERR_SYSTEM, "interrupted before %s", path);
	if (depth > COPY_DEPTH)
		return err_set(e, ERR_LIMIT, "%s: more than %d directories below each other", path, COPY_DEPTH);
	return 0;
}

// NAME:PATH is in a volume; a colon behind a slash is part of a local name.
static int volume_side_parse(const char *arg, struct volume_side *out, struct err *e)
{
	const char *colon = strchr(arg, ':'), *slash = strchr(arg, '/');
	bool inside = colon && colon != arg && (!slash || colon < slash) && *arg != '.';
	const char *path = inside ? colon + 1 : arg;
	size_t n = strlen(path);
	*out = (struct volume_side){.volume = inside ? xstrndup(arg, (size_t)(colon - arg)) : NULL, .slash = n > 1 && path[n - 1] == '/'};
	if (inside) {
		out->path = volume_path_clean(path);
		return out->path ? 0 : err_set(e, ERR_INVALID, "%s: a path in a volume has no .. in it", arg);
	}
	while (n > 1 && path[n - 1] == '/')
		n--;
	out->path = xstrndup(path, n);
	return 0;
}

static void volume_side_done(struct volume_side *s)
{
	free(s->volume);
	free(s->path);
}

static const char *volume_last_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

// "files/VERB?path=PATH&MORE" below the volume; owned.
static char *volume_url(const struct volume_copy *k, const char *verb, const char *path, const char *more)
{
	auto_buf struct buf query = BUF_INIT(64 << 10);
	buf_fmt(&query, "files%s?path=", verb);
	http_encode(&query, *path ? path : "/");
	buf_str(&query, more);
	return api_path("/v1/volumes", k->volume, buf_cstr(&query));
}

static int volume_mkdir(struct volume_copy *k, const char *path, mode_t mode, struct err *e)
{
	auto_buf struct buf body = BUF_INIT(64 << 10);
	struct jsonw w = {.b = &body};
	auto_free char *url = api_path("/v1/volumes", k->volume, "files/mkdir");
	if (!*path)
		return 0;
	jw_open(&w, '{');
	jw_kstr(&w, "path", path);
	jw_kbool(&w, "parents", true);
	jw_ku64(&w, "mode", mode & 0777);
	jw_close(&w, '}');
	return api_do(k->api, "POST", url, buf_cstr(&body), e);
}

static int volume_upload(struct volume_copy *k, int dir, const char *name, const char *to, int depth, struct err *e);

static int volume_upload_entries(struct volume_copy *k, int fd, const char *to, int depth, struct err *e)
{
	DIR *d = fdopendir(fd);
	struct dirent *ent;
	int rc = 0;
	if (!d) {
		close(fd);
		return err_sys(e, "list %s", to);
	}
	while (!rc && (ent = readdir(d))) {
		if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, ".."))
			continue;
		auto_free char *below = xasprintf("%s%s%s", to, *to ? "/" : "", ent->d_name);
		rc = volume_upload(k, dirfd(d), ent->d_name, below, depth + 1, e);
	}
	closedir(d);
	return rc;
}

static int volume_upload(struct volume_copy *k, int dir, const char *name, const char *to, int depth, struct err *e)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return err_sys(e, "%s", name);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
		k->skipped++;
		return 0;
	}
	if (volume_check_going(to, depth, e))
		return -1;
	int fd = fs_open(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, e);
	if (fd < 0)
		return -1;
	if (S_ISDIR(st.st_mode))
		return volume_mkdir(k, to, st.st_mode, e) ? (close(fd), -1) : volume_upload_entries(k, fd, to, depth, e);
	auto_free char *more = xasprintf("&force=true&mode=%u", st.st_mode & 0777);
	auto_free char *url = volume_url(k, "", to, more);
	int rc = api_put_file(k->api, url, fd, e);
	close(fd);
	return rc;
}

static json_t *volume_stat(struct volume_copy *k, const char *path, struct err *e)
{
	auto_free char *url = volume_url(k, "/stat", path, "");
	return api_json(k->api, "GET", url, NULL, e);
}

static int volume_copy_in(struct volume_copy *k, const struct volume_side *src, const struct volume_side *dst, struct err *e)
{
	struct err none;
	auto_free char *real = realpath(src->path, NULL);
	if (!real)
		return err_sys(e, "%s", src->path);
	auto_json json_t *there = volume_stat(k, dst->path, &none);
	if (!there && none.kind != ERR_NOT_FOUND) {
		*e = none;
		return -1;
	}
	bool into = there && !strcmp(json_str(there, "type"), "directory");
	if (dst->slash && !into)
		return err_set(e, ERR_CONFLICT, "%s:%s is not a directory", dst->volume, dst->path);
	auto_free char *to = into ? xasprintf("%s%s%s", dst->path, *dst->path ? "/" : "", volume_last_name(real)) : xstrdup(dst->path);
	return volume_upload(k, AT_FDCWD, real, to, 0, e);
}

static int volume_download(struct volume_copy *k, const json_t *entry, const char *from, int dir, const char *as, int depth, struct err *e);

static int volume_download_dir(struct volume_copy *k, const char *from, int dir, const char *as, int depth, struct err *e)
{
	size_t i;
	json_t *entry;
	auto_free char *url = volume_url(k, "/list", from, "");
	auto_json json_t *list = api_json(k->api, "GET", url, NULL, e);
	if (!list)
		return -1;
	if (mkdirat(dir, as, 0700))
		return err_sys(e, "make %s", as);
	auto_fd int fd = fs_open_beneath(dir, as, O_RDONLY | O_DIRECTORY, 0, e);
	if (fd < 0)
		return -1;
	json_array_foreach(json_object_get(list, "files"), i, entry)
	{
		const char *name = json_str(entry, "name");
		auto_free char *below = xasprintf("%s%s%s", from, *from ? "/" : "", name);
		bool plain = *name && strcmp(name, ".") && strcmp(name, "..") && !strchr(name, '/') && !json_object_get(entry, "name_b64");
		if (!plain)
			k->skipped++;
		else if (volume_download(k, entry, below, fd, name, depth + 1, e))
			return -1;
	}
	return 0;
}

static int volume_download(struct volume_copy *k, const json_t *entry, const char *from, int dir, const char *as, int depth, struct err *e)
{
	const char *type = json_str(entry, "type");
	bool is_dir = !strcmp(type, "directory");
	mode_t mode = (mode_t)json_u64(entry, "mode") & 0777;
	if (!is_dir && strcmp(type, "file")) {
		k->skipped++;
		return 0;
	}
	if (volume_check_going(from, depth, e))
		return -1;
	if (is_dir)
		return volume_download_dir(k, from, dir, as, depth, e) || fchmodat(dir, as, mode | 0700, 0) ? -1 : 0;
	auto_fd int fd = fs_open(dir, as, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, e);
	auto_free char *url = volume_url(k, "", from, "");
	if (fd < 0 || api_get_file(k->api, url, fd, e))
		return -1;
	return fchmod(fd, mode) ? err_sys(e, "%s", as) : 0;
}

static int volume_copy_out(struct volume_copy *k, const struct volume_side *src, const struct volume_side *dst, struct err *e)
{
	struct place p;
	auto_json json_t *entry = volume_stat(k, src->path, e);
	const char *name = *src->path ? volume_last_name(src->path) : src->volume;
	if (!entry || place_open(&p, dst->path, dst->slash, name, e))
		return -1;
	mode_t mask = umask(0);
	umask(mask);
	int rc = volume_download(k, entry, src->path, p.temp, name, 0, e);
	if (!rc && fs_exists(p.temp, name))
		rc = place_move(&p, mask, e);
	place_close(&p);
	return rc;
}

static int volume_cp_run(const struct call *c)
{
	struct err e;
	struct volume_side src = {0}, dst = {0};
	auto_api struct api a = API_CLOSED;
	struct volume_copy k = {.api = &a};
	int rc = volume_side_parse(c->words[0], &src, &e) || volume_side_parse(c->words[1], &dst, &e) ? -1 : 0;
	if (!rc && !src.volume == !dst.volume)
		rc = err_set(&e, ERR_INVALID, "one of the two must be NAME:PATH (a local name with a colon: ./a:b)");
	if (!rc)
		rc = api_open(&a, &e);
	k.volume = src.volume ? src.volume : dst.volume;
	volume_catch_signals();
	if (!rc)
		rc = src.volume ? volume_copy_out(&k, &src, &dst, &e) : volume_copy_in(&k, &src, &dst, &e);
	volume_side_done(&src);
	volume_side_done(&dst);
	if (!rc && k.skipped) {
		auto_buf struct buf b = BUF_INIT(256);
		buf_fmt(&b, "skep: volume cp: %u links and other special files stayed behind\n", k.skipped);
		out_stderr(&b);
	}
	return rc ? out_fail(c, &e) : 0;
}

const struct cmd cmd_volume_create = {
	.name = "volume create",
	.args = "NAME",
	.help = "make a volume: a directory that outlives sandboxes",
	.notes = "skep run --volume NAME:/data shows it inside, in several sandboxes at once. Snapshots do not cover it.",
	.opts = volume_create_opts,
	.opts_size = sizeof(struct volume_opts),
	.min_words = 1,
	.max_words = 1,
	.tail = -1,
	.run = volume_create_run,
};

const struct cmd cmd_volume_ls = {
	.name = "volume ls",
	.args = "",
	.help = "list the volumes",
	.opts = volume_ls_opts,
	.opts_size = sizeof(struct volume_opts),
	.tail = -1,
	.run = volume_ls_run,
};

const struct cmd cmd_volume_rm = {
	.name = "volume rm",
	.args = "VOLUME...",
	.help = "remove volumes that no sandbox has, with all that is in them",
	.min_words = 1,
	.max_words = -1,
	.tail = -1,
	.hint = HINT_VOLUME,
	.run = volume_rm_run,
};

const struct cmd cmd_volume_cp = {
	.name = "volume cp",
	.args = "SRC DST",
	.help = "copy files into or out of a volume (one side is NAME:PATH)",
	.notes = "Directories are copied with all that is in them. Into a directory that exists the copy keeps its name, else it\n"
		 "gets the new one. Links, devices, FIFOs, sockets and setuid bits stay behind.",
	.min_words = 2,
	.max_words = 2,
	.tail = -1,
	.hint = HINT_FILE,
	.run = volume_cp_run,
};
