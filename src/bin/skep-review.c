// SPDX-License-Identifier: Apache-2.0
// skep-review collect --shadow DIR [--max-file BYTES] [--max-total BYTES]     a stream of changes (base/delta.h) on stdin
//                     [--keep-free BYTES] [--socket PATH]                     or from the job of a cell
// skep-review put --socket PATH --from FILE                                   sends a stream to the job of a cell
// skep-review diff | apply | undo | recover | dismiss | export                a request in JSON on stdin
// skep-review wait                                                            the same, its verb in a line before the request
// skep-review inherit --from DIR --shadow DIR --base TREE|- --t0 NS           P and its objects out of another shadow
//
// skep-review bundle --socket PATH --work DIR --ref REF [--base COMMIT] [--dir DIR [--branch B]]
//                                                                             commits of a sandbox: a branch in DIR, or the bundle on stdout
//
// The ticket for a cell's socket comes on stdin: every user of the machine can read a command line.
//
// Judges and lands what a sandbox made, for skepd, which never does such work itself. Results are JSON lines on stdout, or
// the patch that was asked for. An error is {"error":{"kind":"…","message":"…"}} as the last line (on stderr when stdout
// carries a patch), with exit status 1, or 75 where a part was asked for and can not be judged without the rest; `refused` in it names paths and reasons. docs/review.md has every field.
#include "base/fault.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "workspace/cell_pipe.h"
#include "workspace/helper.h"
#include "workspace/review_base.h"
#include "workspace/review_export.h"
#include "workspace/review_fetch.h"
#include "workspace/review_print.h"
#include "workspace/review_shadow.h"
#include "workspace/review_verb.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool raw_output; // stdout carries no JSON

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
	return e->sys == REVIEW_NEEDS_ALL ? 75 : 1;
}

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

static char *read_ticket(struct err *e)
{
	auto_buf struct buf b = BUF_INIT(1024);
	if (fs_read_fd(STDIN_FILENO, &b, e))
		return NULL;
	if (!b.n) {
		err_set(e, ERR_INVALID, "there is no ticket on stdin: the ticket of the cell's job is needed with --socket");
		return NULL;
	}
	return xstrndup(b.p, strcspn(buf_cstr(&b), "\n"));
}

static int do_put(int argc, char **argv, struct err *e)
{
	struct cell_pipe p = {.in = -1, .out = -1};
	const char *from = NULL;
	const struct option options[] = {{"--socket", &p.socket}, {"--from", &from}};
	if (read_options(argc, argv, options, countof(options), e))
		return -1;
	if (!p.socket || !from)
		return err_set(e, ERR_INVALID, "--socket and --from are needed");
	auto_free char *ticket = read_ticket(e);
	if (!ticket)
		return -1;
	p.ticket = ticket;
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
	const struct option options[] = {{"--socket", &x.socket}, {"--work", &x.work},	    {"--ref", &x.ref},
					 {"--base", &x.base},	  {"--dir", &x.dir},	   {"--branch", &x.branch}, {"--most", &most}};
	if (read_options(argc, argv, options, countof(options), e) || read_number(most, "--most", UINT64_MAX, &x.most, e))
		return -1;
	if (!x.socket || !x.work || !x.ref || (x.branch && !x.dir))
		return err_set(e, ERR_INVALID, "--socket, --work and --ref are needed, and --dir for a branch");
	auto_free char *ticket = read_ticket(e);
	if (!ticket)
		return -1;
	x.ticket = ticket;
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
	jw_ku64(&w, "copied", r->copied);
	jw_ku64(&w, "unasked", r->unasked);
	jw_ku64(&w, "disk", r->disk);
	jw_close(&w, '}');
	return review_print_line(&b, e);
}

static int do_collect(int argc, char **argv, struct err *e)
{
	struct review_fetch f = {.spec = {COPY_FILE_MAX, COPY_TOTAL_MAX, 0, NULL}};
	const char *of_file = NULL, *of_all = NULL, *keep = NULL;
	const struct option options[] = {{"--shadow", &f.shadow},    {"--socket", &f.socket},
					 {"--max-file", &of_file}, {"--max-total", &of_all}, {"--keep-free", &keep}};
	struct collect_result r;
	if (read_options(argc, argv, options, countof(options), e) || read_number(of_file, "--max-file", UINT64_MAX, &f.spec.file_max, e) ||
	    read_number(of_all, "--max-total", UINT64_MAX, &f.spec.total_max, e) || read_number(keep, "--keep-free", UINT64_MAX, &f.spec.keep_free, e))
		return -1;
	if (!f.shadow)
		return err_set(e, ERR_INVALID, "--shadow is missing");
	auto_free char *ticket = f.socket ? read_ticket(e) : NULL;
	if (f.socket && !ticket)
		return -1;
	f.ticket = ticket;
	if (f.spec.file_max > COPY_FILE_MAX)
		f.spec.file_max = COPY_FILE_MAX;
	return review_fetch_run(&f, &r, e) ? -1 : print_collected(&r, e);
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv, struct err *e);
} verbs[] = {{"collect", do_collect}, {"put", do_put}, {"inherit", do_inherit}, {"bundle", do_bundle}};

// Started ahead of a request: its verb is the first line.
static int do_wait(struct refusal *why, struct err *e)
{
	char verb[16];
	size_t n = 0;
	shadow_warm();
	while (n + 1 < sizeof verb && read(STDIN_FILENO, verb + n, 1) == 1 && verb[n] != '\n')
		n++;
	verb[n] = 0;
	return n ? review_verb_run(verb, &raw_output, why, e) : 0; // nothing to do after all
}

static int run(int argc, char **argv, struct refusal *why, struct err *e)
{
	if (!strcmp(argv[1], "wait"))
		return do_wait(why, e);
	for (size_t i = 0; i < countof(verbs); i++)
		if (!strcmp(verbs[i].name, argv[1]))
			return verbs[i].run(argc, argv, e);
	return review_verb_run(argv[1], &raw_output, why, e);
}

int main(int argc, char **argv)
{
	struct err e = {0};
	struct refusal why = {0};
	if (argc < 2) {
		fputs("usage: skep-review collect | put | inherit | bundle | diff | apply | undo | recover | dismiss | export\n", stderr);
		return 2;
	}
	helper_begin(077, HELPER_GAINS_NONE); // it reads hostile content; what lands on the host gets its mode explicitly
	fault_init();
	int rc = run(argc, argv, &why, &e);
	if (!rc && fflush(stdout))
		rc = err_sys(&e, "write the result");
	int status = rc ? print_error(&e, &why) : 0;
	refusal_done(&why);
	return status;
}
