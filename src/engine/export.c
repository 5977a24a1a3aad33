// SPDX-License-Identifier: Apache-2.0
// The command that writes a sandbox's commits as a bundle to its stdout, inside its cell: git never runs outside on a
// repository that the sandbox could write.
#include "engine/review_int.h"

#include "base/mem.h"

// $1 commit it began with ("" = none), $2 ref, $3 message, $4 commit that needs not be in it. Without commits of its own one
// is made of the files as they are, beside the sandbox's own index and branch.
static const char script[] =
	"set -e\n"
	"git rev-parse --git-dir >/dev/null 2>&1 || { echo 'the workspace is no git repository' >&2; exit 1; }\n"
	"head=$(git rev-parse -q --verify HEAD || true)\n"
	"own=0; [ -z \"$head\" ] || own=$(git rev-list --count \"$head\" ${1:+^$1})\n"
	"if [ \"$own\" = 0 ]; then\n"
	"	GIT_INDEX_FILE=$(mktemp -u) && export GIT_INDEX_FILE\n"
	"	trap 'rm -f \"$GIT_INDEX_FILE\"' EXIT\n"
	"	[ -z \"$head\" ] || git read-tree \"$head\"\n"
	"	git add -A . >&2\n"
	"	tree=$(git write-tree)\n"
	"	if [ -n \"$head\" ] && [ \"$tree\" = \"$(git rev-parse \"$head^{tree}\")\" ]; then echo 'nothing was changed' >&2; exit 1; fi\n"
	"	GIT_AUTHOR_NAME=$(git config user.name || echo skep) GIT_AUTHOR_EMAIL=$(git config user.email || echo skep@localhost)\n"
	"	GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL\n"
	"	export GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL\n"
	"	head=$(git commit-tree \"$tree\" ${head:+-p \"$head\"} -m \"$3\")\n"
	"fi\n"
	"git update-ref \"$2\" \"$head\" >&2\n"
	"git bundle create --quiet - \"$2\" ${4:+^$4} || { git update-ref -d \"$2\"; exit 1; }\n"
	"git update-ref -d \"$2\" >&2\n";

// One of its own: an exec that nobody reads any more may still be at work on another.
char *export_ref(void)
{
	char id[ID_SIZE];
	id_make('e', id);
	return xasprintf("refs/heads/skep/%s", id);
}

void export_command(struct exec_request *x, const char *ref, const char *head, const char *base, const char *message)
{
	const char *argv[] = {"/bin/sh", "-c", script, "sh", head ? head : "", ref,
			      message ? message : "Changes made in a sandbox", base ? base : ""};
	for (size_t i = 0; i < countof(argv); i++)
		strv_add(&x->argv, argv[i]);
}
