// SPDX-License-Identifier: Apache-2.0
#include "workspace/review_verb.h"

#include "base/fs.h"
#include "base/mem.h"
#include "workspace/review_print.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define REQUEST_MAX (64u << 20)

static int print_review(struct review_request *q, int (*print)(struct review *r, struct review_request *q, struct err *e), struct err *e)
{
	struct review r;
	if (review_open(&q->spec, &r, e))
		return -1;
	int rc = print(&r, q, e);
	review_done(&r);
	return rc;
}

static int do_diff(struct review_request *q, struct refusal *why, struct err *e)
{
	(void)why;
	return print_review(q, review_print_diff, e);
}

static int do_export(struct review_request *q, struct refusal *why, struct err *e)
{
	(void)why;
	return print_review(q, review_print_mail, e);
}

static int open_log(const struct review_request *q, int *out_lock, struct err *e)
{
	if (!q->log)
		return err_set(e, ERR_INVALID, "\"log\" is missing");
	if (fs_mkdirs(AT_FDCWD, q->log, 0700, e))
		return -1;
	auto_fd int log = fs_open(AT_FDCWD, q->log, O_RDONLY | O_DIRECTORY, 0, e);
	if (log < 0 || (*out_lock = txn_lock(log, e)) < 0)
		return -1;
	return take_fd(&log);
}

static int recover(const struct review_request *q, int log, enum txn_recovered *out, struct err *e)
{
	struct shadow *s;
	if (shadow_open(q->spec.shadow, &s, e))
		return -1;
	int rc = txn_recover(log, s, out, e);
	shadow_close(s);
	return rc;
}

static int do_apply(struct review_request *q, struct refusal *why, struct err *e)
{
	struct apply_result r = {0};
	enum txn_recovered before = TXN_NOTHING;
	auto_fd int lock = -1, log = open_log(q, &lock, e);
	if (log < 0)
		return -1;
	if (!q->apply.set.all && !q->apply.set.paths && !q->apply.set.hunks)
		return err_set(e, ERR_INVALID, "\"set\" names nothing");
	int rc = recover(q, log, &before, e) || review_apply(&q->spec, log, &q->apply, &r, why, e) || review_print_result(&r, before, e);
	apply_result_done(&r);
	return rc ? -1 : 0;
}

static int do_undo(struct review_request *q, struct refusal *why, struct err *e)
{
	struct apply_result r = {0};
	enum txn_recovered before = TXN_NOTHING;
	auto_fd int lock = -1, log = open_log(q, &lock, e);
	if (log < 0)
		return -1;
	int rc = recover(q, log, &before, e) || review_undo(q->spec.shadow, log, q->apply.umask, &r, why, e) ||
		 review_print_result(&r, before, e);
	apply_result_done(&r);
	return rc ? -1 : 0;
}

static int do_recover(struct review_request *q, struct refusal *why, struct err *e)
{
	enum txn_recovered what = TXN_NOTHING;
	auto_fd int lock = -1, log = open_log(q, &lock, e);
	(void)why;
	if (log < 0 || recover(q, log, &what, e))
		return -1;
	return review_print_recovered(q->spec.shadow, what, e);
}

static int open_stream(const char *path, struct delta_out *out, struct err *e)
{
	int fd = fs_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, e);
	if (fd >= 0)
		delta_out_init(out, fd);
	return fd;
}

// OUT, and OUT.back, which undoes it.
static int write_dismissal(struct review *r, struct review_request *q, uint64_t *paths, struct err *e)
{
	struct delta_out out, back;
	auto_free char *name = xasprintf("%s.back", q->out);
	auto_fd int back_fd = open_stream(name, &back, e);
	if (back_fd < 0)
		return -1;
	int rc = review_dismiss_back(r, &q->apply.set, &back, e);
	delta_out_done(&back);
	auto_fd int fd = rc ? -1 : open_stream(q->out, &out, e);
	if (fd < 0)
		return -1;
	rc = review_dismiss(r, &out, paths, e);
	delta_out_done(&out);
	return rc;
}

static int do_dismiss(struct review_request *q, struct refusal *why, struct err *e)
{
	struct review r;
	uint64_t paths = 0;
	(void)why;
	if (!q->out)
		return err_set(e, ERR_INVALID, "\"out\" is missing");
	if (review_open(&q->spec, &r, e))
		return -1;
	int rc = q->apply.digest && strcmp(q->apply.digest, r.digest)
			 ? err_set(e, ERR_CONFLICT, "the changes are not those that were reviewed: look again")
			 : write_dismissal(&r, q, &paths, e);
	review_done(&r);
	return rc ? -1 : review_print_dismissed(paths, e);
}

static bool diff_is_raw(const struct review_request *q)
{
	return q->format != FORMAT_JSON;
}

static bool export_is_raw(const struct review_request *q)
{
	return !q->parent;
}

static const struct {
	const char *name;
	int (*run)(struct review_request *q, struct refusal *why, struct err *e);
	bool (*is_raw)(const struct review_request *q); // NULL: its output is JSON
} verbs[] = {
	{"diff", do_diff, diff_is_raw}, {"export", do_export, export_is_raw}, {"apply", do_apply, NULL},
	{"undo", do_undo, NULL},	{"recover", do_recover, NULL},	      {"dismiss", do_dismiss, NULL},
};

int review_verb_run(const char *name, bool *out_raw, struct refusal *why, struct err *e)
{
	auto_buf struct buf in = BUF_INIT(REQUEST_MAX);
	struct review_request q;
	size_t i = 0;
	while (i < countof(verbs) && strcmp(verbs[i].name, name))
		i++;
	if (i == countof(verbs))
		return err_set(e, ERR_INVALID, "unknown verb %s", name);
	if (fs_read_fd(0, &in, e) || review_request_read(buf_cstr(&in), in.n, &q, e))
		return -1;
	*out_raw = verbs[i].is_raw && verbs[i].is_raw(&q);
	int rc = (q.fetch.socket && review_fetch_run(&q.fetch, &q.collected, e)) || verbs[i].run(&q, why, e) ? -1 : 0;
	review_request_done(&q);
	return rc;
}
