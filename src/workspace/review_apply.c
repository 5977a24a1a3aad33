// SPDX-License-Identifier: Apache-2.0
#include "workspace/review_apply.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int check_digest(const struct review *r, const char *digest, struct err *e)
{
	if (!digest || !strcmp(digest, r->digest))
		return 0;
	return err_set(
		e, ERR_CONFLICT,
		"the changes are not those that were reviewed (digest %.12s, now %.12s): look again; nothing was written",
		digest, r->digest);
}

static int run(struct review *r, int log, const struct apply_spec *a, struct apply_result *out, struct refusal *why,
	       struct err *e)
{
	struct txn *t = &out->txn;
	struct txn_env env = {.root = r->root, .log = log, .shadow = r->shadow, .umask = a->umask};
	uint64_t top;
	if (!r->spec.target)
		return err_set(e, ERR_INVALID, "the sandbox has no directory on this machine: say where to");
	if (r->root < 0)
		return err_set(
			e, ERR_UNAVAILABLE,
			"the host directory %s is not there any more: nothing can be applied; export a patch instead",
			r->spec.target);
	if (review_select(r, &a->set, e) || review_steps(r, a, t, out, why, e) || txn_top(log, &top, e))
		return -1;
	t->what = TXN_APPLY;
	t->number = top + 1;
	t->keeps_p = a->to != NULL;
	t->target = xstrdup(r->spec.target);
	if (!t->n && (t->keeps_p || !memcmp(t->p_before, t->p_after, SHADOW_OID)))
		return 0; // nothing was chosen, or all of it was left out
	int rc = txn_plan(&env, t, e) || txn_run(&env, t, e) ? -1 : 0;
	out->left = env.left;
	return rc;
}

int review_apply(const struct review_spec *spec, int log, const struct apply_spec *a, struct apply_result *out,
		 struct refusal *why, struct err *e)
{
	struct review r, other;
	struct review_spec to = *spec;
	*out = (struct apply_result){0};
	if (review_open(spec, &r, e))
		return -1;
	int rc = check_digest(&r, a->digest, e);
	if (!rc && a->to) {
		to.base = spec->target;
		to.baseless = !spec->target;
		to.target = a->to;
		rc = review_open(&to, &other, e);
		if (!rc) {
			rc = run(&other, log, a, out, why, e);
			review_done(&other);
		}
	} else if (!rc) {
		rc = run(&r, log, a, out, why, e);
	}
	review_done(&r);
	return rc;
}

static void reverse(const struct op *was, struct txn *t)
{
	enum op_kind kind = was->kind == OP_RM	    ? OP_PUT
			    : was->kind == OP_RMDIR ? OP_MKDIR
			    : was->kind == OP_MKDIR ? OP_RMDIR
						    : was->old.type == SIDE_NONE ? OP_RM : OP_PUT;
	struct op *op = txn_add(t, kind, was->path);
	op->old = was->now;
	op->now = was->old;
	op->as_was = kind == OP_PUT && was->old.type == SIDE_FILE;
	if (!op->as_was || !was->attrs)
		return;
	op->attrs = xcalloc(1, was->attrs_n);
	op->attrs_n = was->attrs_n;
	memcpy(op->attrs, was->attrs, was->attrs_n);
}

// The host must have exactly what the apply left there.
static int check_host(int root, struct txn *t, struct refusal *why, struct err *e)
{
	auto_buf struct buf bytes = BUF_INIT(COPY_FILE_MAX);
	for (size_t i = 0; i < t->n; i++) {
		struct op *op = &t->v[i];
		struct side now;
		if (op->kind != OP_PUT && op->kind != OP_RM)
			continue;
		if (side_look(root, op->path, &now, &bytes, e))
			return -1;
		if (!side_same(&now, &op->old) && !(now.type == SIDE_DIR && op->old.type == SIDE_NONE))
			refusal_add(why, op->path, "%s",
				    now.type == SIDE_NONE	? "it is not on the host any more"
				    : op->old.type == SIDE_NONE ? "the host has made another one since"
								: "the host has changed it since");
		op->old = now.type == SIDE_DIR ? op->old : now; // owner and mode as they are
	}
	return why->n ? err_set(e, ERR_CONFLICT, "the host changed %zu path%s since that apply; nothing was undone",
				why->n, why->n == 1 ? "" : "s")
		      : 0;
}

// P goes back where the apply moved it; what another one moved meanwhile stays.
static int undo_base(struct shadow *s, const struct txn *was, struct txn *t, struct err *e)
{
	struct shadow_update *v = xcalloc(was->n_base + 1, sizeof *v);
	int rc = shadow_base(s, t->p_before, e);
	for (size_t i = 0; i < was->n_base; i++) {
		v[i] = (struct shadow_update){.path = was->base[i].path, .mode = was->base[i].before.mode};
		memcpy(v[i].oid, was->base[i].before.oid, SHADOW_OID);
	}
	if (!rc)
		rc = shadow_update(s, t->p_before, v, was->n_base, t->p_after, e);
	free(v);
	return rc;
}

static int undo_run(struct shadow *s, int log, uint32_t mask, struct txn *was, struct apply_result *out,
		    struct refusal *why, struct err *e)
{
	struct txn *t = &out->txn;
	struct err none;
	auto_fd int root = fs_open(AT_FDCWD, was->target, O_RDONLY | O_DIRECTORY, 0, &none);
	struct txn_env env = {.root = root, .log = log, .shadow = s, .umask = mask};
	if (root < 0)
		return err_set(e, ERR_UNAVAILABLE, "the host directory %s is not there any more: nothing can be undone",
			       was->target);
	for (size_t i = 0; i < was->n; i++)
		reverse(&was->v[i], t);
	t->what = TXN_UNDO;
	t->number = was->number;
	t->target = xstrdup(was->target);
	if (check_host(root, t, why, e) || undo_base(s, was, t, e) || txn_plan(&env, t, e))
		return -1;
	int rc = txn_run(&env, t, e);
	out->left = env.left;
	return rc;
}

int review_undo(const char *shadow, int log, uint32_t mask, struct apply_result *out, struct refusal *why,
		struct err *e)
{
	struct shadow *s;
	struct txn was;
	uint64_t top;
	char name[32];
	*out = (struct apply_result){0};
	if (txn_top(log, &top, e))
		return -1;
	if (!top)
		return err_set(e, ERR_NOT_FOUND, "nothing was applied that could be undone");
	if (fmt_to(name, sizeof name, "undo/%06llu", (unsigned long long)top) || txn_load(log, name, &was, e))
		return -1;
	int rc = shadow_open(shadow, &s, e);
	if (!rc) {
		rc = undo_run(s, log, mask, &was, out, why, e);
		shadow_close(s);
	}
	txn_done(&was);
	return rc;
}
