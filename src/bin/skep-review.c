// SPDX-License-Identifier: Apache-2.0
// skep-review collect --shadow DIR [--max-file BYTES] [--max-total BYTES]     a stream of changes (base/delta.h) on stdin
//                     [--socket PATH --ticket KEY]                            or from the job of a cell
// skep-review put --socket PATH --ticket KEY --from FILE                      sends a stream to the job of a cell
// skep-review diff | apply | undo | recover | dismiss | export                a request in JSON on stdin
// skep-review inherit --from DIR --shadow DIR --base TREE|- --t0 NS           P and its objects out of another shadow
//
// skep-review bundle --socket PATH --ticket KEY --work DIR --ref REF [--base COMMIT] [--dir DIR [--branch B]]
//                                                        commits of a sandbox: a branch in DIR, or the bundle on stdout
//
// Judges and lands what a sandbox made, for skepd, which never does such work itself. Results are JSON lines on stdout, or
// the patch that was asked for. An error is {"error":{"kind":"…","message":"…"}} as the last line (on stderr when stdout
// carries a patch), with exit status 1; `refused` in it names paths and reasons. docs/review.md has every field.
#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "workspace/cell_pipe.h"
#include "workspace/helper.h"
#include "workspace/review_base.h"
#include "workspace/review_export.h"
#include "workspace/review_json.h"
#include "workspace/review_mail.h"
#include "workspace/review_patch.h"
#include "workspace/review_request.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REQUEST_MAX (64u << 20)
#define LINE_MAX_OUT (3u << 30) // one line: a patch of one file, or one change with its text

static bool raw_output; // stdout carries no JSON

static int print(struct buf *b, struct err *e)
{
	if (b->overflow)
		return err_set(e, ERR_LIMIT, "a line of output is too long");
	int rc = b->n && fwrite(b->p, 1, b->n, stdout) != b->n ? err_sys(e, "write the result") : 0;
	buf_clear(b);
	return rc;
}

static int print_line(struct buf *b, struct err *e)
{
	buf_byte(b, '\n');
	return print(b, e);
}

static int print_error(const struct err *e, const struct refusal *why)
{
	auto_buf struct buf b = BUF_INIT(64u << 20);
	struct jsonw w = {.b = &b};
	helper_open_error(&w, e);
	if (why && why->n) {
		jw_key(&w, "refused");
		jw_open(&w, '[');
		for (size_t i = 0; i < why->n; i++) {
			jw_open(&w, '{');
			jw_kstr(&w, "path", why->v[i].path);
			jw_kstr(&w, "why", why->v[i].why);
			jw_close(&w, '}');
		}
		jw_close(&w, ']');
	}
	jw_close(&w, '}');
	jw_close(&w, '}');
	buf_byte(&b, '\n');
	fflush(stdout);
	fwrite(b.p, 1, b.n, raw_output ? stderr : stdout);
	return 1;
}

// --- verbs with options ---

struct option {
	const char *name, **to;
};

static int read_options(int argc, char **argv, const struct option *known, size_t n, struct err *e)
{
	for (int i = 2; i < argc; i += 2) {
		size_t k = 0;
		while (k < n && strcmp(argv[i], known[k].name))
			k++;
		if (k == n || i + 1 == argc)
			return err_set(e, ERR_INVALID, "%s %s", k == n ? "unknown option" : "no value for", argv[i]);
		*known[k].to = argv[i + 1];
	}
	return 0;
}

// NULL leaves *inout as it is.
static int read_number(const char *text, const char *name, uint64_t max, uint64_t *inout, struct err *e)
{
	if (text && str_to_u64(str_of(text), 0, max, inout))
		return err_set(e, ERR_INVALID, "%s %s is no number, or too large", name, text);
	return 0;
}

static int do_put(int argc, char **argv, struct err *e)
{
	struct cell_pipe p = {.in = -1, .out = -1};
	const char *from = NULL;
	const struct option options[] = {{"--socket", &p.socket}, {"--ticket", &p.ticket}, {"--from", &from}};
	if (read_options(argc, argv, options, countof(options), e))
		return -1;
	if (!p.socket || !p.ticket || !from)
		return err_set(e, ERR_INVALID, "--socket, --ticket and --from are needed");
	auto_fd int in = fs_open(AT_FDCWD, from, O_RDONLY, 0, e);
	if (in < 0)
		return -1;
	p.in = in;
	if (cell_pipe_run(&p, e))
		return -1;
	return puts("{}") < 0 ? err_sys(e, "write the result") : 0;
}

static int do_inherit(int argc, char **argv, struct err *e)
{
	const char *from = NULL, *shadow = NULL, *tree = NULL, *since = NULL;
	const struct option options[] = {{"--from", &from}, {"--shadow", &shadow}, {"--base", &tree}, {"--t0", &since}};
	uint64_t t0 = 0;
	if (read_options(argc, argv, options, countof(options), e) || read_number(since, "--t0", INT64_MAX, &t0, e))
		return -1;
	if (!from || !shadow || !tree || !t0)
		return err_set(e, ERR_INVALID, "--from, --shadow, --base and --t0 are needed");
	char hex[41];
	if (review_base_inherit(from, shadow, tree, (int64_t)t0, hex, e))
		return -1;
	return printf("{\"tree\":\"%s\"}\n", hex) < 0 ? err_sys(e, "write the result") : 0;
}

static int do_bundle(int argc, char **argv, struct err *e)
{
	struct export_spec x = {.out = STDOUT_FILENO};
	const char *most = NULL;
	const struct option options[] = {{"--socket", &x.socket}, {"--ticket", &x.ticket}, {"--work", &x.work},	    {"--ref", &x.ref},
					 {"--base", &x.base},	  {"--dir", &x.dir},	   {"--branch", &x.branch}, {"--most", &most}};
	if (read_options(argc, argv, options, countof(options), e) || read_number(most, "--most", UINT64_MAX, &x.most, e))
		return -1;
	if (!x.socket || !x.ticket || !x.work || !x.ref || (x.branch && !x.dir))
		return err_set(e, ERR_INVALID, "--socket, --ticket, --work and --ref are needed, and --dir for a branch");
	char commit[41];
	raw_output = !x.branch;
	if (review_export(&x, commit, e))
		return -1;
	return x.branch && printf("{\"commit\":\"%s\"}\n", commit) < 0 ? err_sys(e, "write the result") : 0;
}

static int print_collected(const struct collect_result *r, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(1 << 10);
	struct jsonw w = {.b = &b};
	jw_open(&w, '{');
	jw_ku64(&w, "entries", r->entries);
	jw_ku64(&w, "files", r->files);
	jw_ku64(&w, "bytes", r->bytes);
	jw_ku64(&w, "torn", r->torn);
	jw_ku64(&w, "unkept", r->unkept);
	jw_ku64(&w, "discarded", r->discarded);
	jw_close(&w, '}');
	return print_line(&b, e);
}

// From the job of a cell; without one, from stdin.
static int collect_from(const struct cell_pipe *cell, int dir, uint64_t file_max, uint64_t total_max, struct err *e)
{
	struct cell_pipe_child job = {.pid = -1, .out = -1, .said = -1};
	struct collect_result r;
	struct delta_in in;
	struct err why;
	if (cell->socket && cell_pipe_start(cell, &job, e))
		return -1;
	delta_in_fd(&in, cell->socket ? job.out : 0);
	int rc = review_collect(dir, &in, file_max, total_max, &r, e);
	delta_in_done(&in);
	if (cell->socket && cell_pipe_wait(&job, &why) && !(rc && why.sys == EPIPE)) { // EPIPE: we stopped reading
		*e = why;
		rc = -1;
	}
	return rc ? -1 : print_collected(&r, e);
}

static int do_collect(int argc, char **argv, struct err *e)
{
	struct cell_pipe cell = {.in = -1};
	const char *shadow = NULL, *of_file = NULL, *of_all = NULL;
	const struct option options[] = {
		{"--shadow", &shadow}, {"--socket", &cell.socket}, {"--ticket", &cell.ticket}, {"--max-file", &of_file}, {"--max-total", &of_all}};
	uint64_t file_max = COPY_FILE_MAX, total_max = COPY_TOTAL_MAX;
	if (read_options(argc, argv, options, countof(options), e) || read_number(of_file, "--max-file", COPY_TOTAL_MAX, &file_max, e) ||
	    read_number(of_all, "--max-total", COPY_TOTAL_MAX, &total_max, e))
		return -1;
	if (!shadow || (cell.socket && !cell.ticket))
		return err_set(e, ERR_INVALID, "%s is missing", shadow ? "--ticket" : "--shadow");
	if (review_base_ensure(shadow, e))
		return -1;
	auto_fd int dir = fs_open(AT_FDCWD, shadow, O_RDONLY | O_DIRECTORY, 0, e);
	if (dir < 0)
		return -1;
	return collect_from(&cell, dir, file_max < COPY_FILE_MAX ? file_max : COPY_FILE_MAX, total_max, e);
}

// --- verbs with a request ---

// A filter of paths for diff and export: nothing named = everything.
static int choose(struct review *r, struct review_request *q, struct err *e)
{
	struct selection *set = &q->apply.set;
	if (!set->paths && !set->hunks)
		set->all = true;
	return review_select(r, set, e);
}

static int print_change(struct review *r, struct review_request *q, const struct change *c, struct buf *b, struct err *e)
{
	struct jsonw w = {.b = b};
	if (q->format == FORMAT_NAME_STATUS)
		change_name_status(c, b);
	else if (q->format == FORMAT_PATCH && change_patch(r, c, (unsigned)(q->context < 0 ? 3 : q->context), true, b, e))
		return -1;
	else if (q->format == FORMAT_JSON && (change_json(r, c, q->context, &w, e) || print_line(b, e)))
		return -1;
	return print(b, e);
}

static int print_review(struct review *r, struct review_request *q, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(LINE_MAX_OUT);
	struct jsonw w = {.b = &b};
	if (choose(r, q, e))
		return -1;
	if (q->format == FORMAT_STAT) {
		patch_stat(r, &b);
		return print(&b, e);
	}
	for (size_t i = 0; i < r->n; i++)
		if (change_is_taken(r->v[i]) && !r->v[i]->hidden && print_change(r, q, r->v[i], &b, e))
			return -1;
	if (q->format != FORMAT_JSON)
		return 0;
	jw_open(&w, '{');
	jw_key(&w, "summary");
	review_summary_json(r, &w);
	jw_close(&w, '}');
	return print_line(&b, e);
}

static int do_diff(struct review_request *q, struct refusal *why, struct err *e)
{
	struct review r;
	(void)why;
	raw_output = q->format != FORMAT_JSON;
	if (review_open(&q->spec, &r, e))
		return -1;
	int rc = print_review(&r, q, e);
	review_done(&r);
	return rc;
}

static int print_commit(struct review *r, const struct mail *m, const char *parent, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(1 << 10);
	struct jsonw w = {.b = &b};
	uint8_t commit[SHADOW_OID], tree[SHADOW_OID];
	char hex[41];
	if (mail_commit(r, m, parent, commit, tree, e))
		return -1;
	jw_open(&w, '{');
	shadow_hex(commit, hex);
	jw_kstr(&w, "commit", hex);
	jw_kstr(&w, "parent", parent);
	shadow_hex(tree, hex);
	jw_kstr(&w, "tree", hex);
	jw_close(&w, '}');
	return print_line(&b, e);
}

static int print_mail(struct review *r, struct review_request *q, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(LINE_MAX_OUT);
	struct mail m = {
		.author = q->author ? q->author : "skep",
		.email = q->email ? q->email : "skep@localhost",
		.subject = q->subject ? q->subject : "Changes made in a sandbox",
		.message = q->message,
		.date = q->date ? q->date : clock_unix_ms() / 1000,
	};
	if (choose(r, q, e))
		return -1;
	if (q->parent)
		return print_commit(r, &m, q->parent, e);
	if (mail_head(r, &m, &b, e) || print(&b, e))
		return -1;
	for (size_t i = 0; i < r->n; i++)
		if (change_is_taken(r->v[i]) && (change_patch(r, r->v[i], 3, true, &b, e) || print(&b, e)))
			return -1;
	mail_end(&b);
	return print(&b, e);
}

static int do_export(struct review_request *q, struct refusal *why, struct err *e)
{
	struct review r;
	(void)why;
	raw_output = !q->parent;
	if (review_open(&q->spec, &r, e))
		return -1;
	int rc = print_mail(&r, q, e);
	review_done(&r);
	return rc;
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

static const char *recovered_name(enum txn_recovered r)
{
	static const char *const names[] = {"nothing", "finished", "reverted", "abandoned"};
	return names[r];
}

static int print_result(const struct apply_result *r, enum txn_recovered before, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(64u << 20);
	struct jsonw w = {.b = &b};
	char hex[41];
	for (size_t i = 0; i < r->txn.n; i++) {
		op_json(&r->txn.v[i], &w);
		if (print_line(&b, e))
			return -1;
		w.comma = false;
	}
	jw_open(&w, '{');
	jw_key(&w, "result");
	jw_open(&w, '{');
	jw_ku64(&w, "steps", r->txn.n);
	jw_ku64(&w, "undo", r->txn.keeps_p ? 0 : r->txn.number);
	shadow_hex(r->txn.p_before, hex);
	jw_kstr(&w, "base_before", hex);
	shadow_hex(r->txn.keeps_p ? r->txn.p_before : r->txn.p_after, hex);
	jw_kstr(&w, "base_after", hex);
	jw_kstrv(&w, "skipped", r->skipped);
	jw_kstr(&w, "left", r->left);
	jw_kstr(&w, "recovered", recovered_name(before));
	jw_close(&w, '}');
	jw_close(&w, '}');
	return print_line(&b, e);
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
	int rc = recover(q, log, &before, e) || review_apply(&q->spec, log, &q->apply, &r, why, e) || print_result(&r, before, e);
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
		 print_result(&r, before, e);
	apply_result_done(&r);
	return rc ? -1 : 0;
}

static int do_recover(struct review_request *q, struct refusal *why, struct err *e)
{
	enum txn_recovered what = TXN_NOTHING;
	auto_buf struct buf b = BUF_INIT(1 << 10);
	struct jsonw w = {.b = &b};
	auto_fd int lock = -1, log = open_log(q, &lock, e);
	(void)why;
	if (log < 0 || recover(q, log, &what, e))
		return -1;
	jw_open(&w, '{');
	jw_kstr(&w, "recovered", recovered_name(what));
	jw_close(&w, '}');
	return print_line(&b, e);
}

static int write_dismissal(struct review *r, struct review_request *q, uint64_t *paths, struct err *e)
{
	struct delta_out out;
	auto_fd int fd = fs_open(AT_FDCWD, q->out, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, e);
	if (fd < 0)
		return -1;
	delta_out_init(&out, fd);
	int rc = review_dismiss(r, &q->apply.set, &out, paths, e);
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
	if (rc)
		return -1;
	auto_buf struct buf b = BUF_INIT(1 << 10);
	struct jsonw w = {.b = &b};
	jw_open(&w, '{');
	jw_ku64(&w, "paths", paths);
	jw_close(&w, '}');
	return print_line(&b, e);
}

static const struct {
	const char *name;
	int (*run)(struct review_request *q, struct refusal *why, struct err *e);
} verbs[] = {
	{"diff", do_diff}, {"apply", do_apply}, {"undo", do_undo}, {"recover", do_recover}, {"dismiss", do_dismiss}, {"export", do_export},
};

static int run_verb(const char *name, struct refusal *why, struct err *e)
{
	auto_buf struct buf in = BUF_INIT(REQUEST_MAX);
	struct review_request q;
	for (size_t i = 0; i < countof(verbs); i++) {
		if (strcmp(verbs[i].name, name))
			continue;
		if (fs_read_fd(0, &in, e) || review_request_read(buf_cstr(&in), in.n, &q, e))
			return -1;
		int rc = verbs[i].run(&q, why, e);
		review_request_done(&q);
		return rc;
	}
	return err_set(e, ERR_INVALID, "unknown verb %s: collect, diff, apply, undo, recover, dismiss or export", name);
}

int main(int argc, char **argv)
{
	struct err e = {0};
	struct refusal why = {0};
	if (argc < 2) {
		fputs("usage: skep-review collect --shadow DIR | diff | apply | undo | recover | dismiss | export\n", stderr);
		return 2;
	}
	helper_begin(077, HELPER_GAINS_NONE); // it reads hostile content; what lands on the host gets its mode explicitly
	fault_init();
	int rc = !strcmp(argv[1], "collect") ? do_collect(argc, argv, &e)
		 : !strcmp(argv[1], "put")     ? do_put(argc, argv, &e)
		 : !strcmp(argv[1], "bundle")  ? do_bundle(argc, argv, &e)
		 : !strcmp(argv[1], "inherit") ? do_inherit(argc, argv, &e)
					       : run_verb(argv[1], &why, &e);
	if (!rc && fflush(stdout))
		rc = err_sys(&e, "write the result");
	int status = rc ? print_error(&e, &why) : 0;
	refusal_done(&why);
	return status;
}
