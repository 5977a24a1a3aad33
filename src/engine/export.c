// SPDX-License-Identifier: Apache-2.0
// The command that writes a sandbox's commits as a bundle to its stdout, inside its cell: git never runs outside on a
// repository that the sandbox could write.
#include "engine/review_int.h"

#include "base/mem.h"
#include <string.h>

// $1 commit it began with ("" = none), $2 ref, $3 message, $4 commit that needs not be in it, $5 "all" for every ref whose commit
// the base has not, and for commits that only logs reach (detached, amended, reset, stashes): they get refs below $6. Without
// commits of its own one is made of the files as they are, beside the sandbox's own index and branch.
static const char script[] =
	"set -e\n"
	"git rev-parse --git-dir >/dev/null 2>&1 || { echo 'the workspace is no git repository' >&2; exit 1; }\n"
	"head=$(git rev-parse -q --verify HEAD || true)\n"
	"own=0; [ -z \"$head\" ] || own=$(git rev-list --count \"$head\" ${1:+^$1})\n"
	"made=$2 extra= temporary=\n"
	"if [ \"$own\" = 0 ]; then\n"
	"	GIT_INDEX_FILE=$(mktemp -u) && export GIT_INDEX_FILE\n"
	"	trap 'rm -f \"$GIT_INDEX_FILE\"' EXIT\n"
	"	[ -z \"$head\" ] || git read-tree \"$head\"\n"
	"	git add -A . >&2\n"
	"	tree=$(git write-tree)\n"
	"	GIT_AUTHOR_NAME=$(git config user.name || echo skep) GIT_AUTHOR_EMAIL=$(git config user.email || echo skep@localhost)\n"
	"	GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL\n"
	"	export GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL\n"
	"	if [ -n \"$head\" ] && [ \"$tree\" = \"$(git rev-parse \"$head^{tree}\")\" ]; then made=\n"
	"	else head=$(git commit-tree \"$tree\" ${head:+-p \"$head\"} -m \"$3\"); fi\n"
	"fi\n"
	// ids on stdin: those that none of the places has which the base borrows from
	"fresh() {\n"
	"	ids=$(cat)\n"
	"	places=$(git rev-parse --git-path objects/info/alternates)\n"
	"	[ -s \"$places\" ] || { echo \"$ids\"; return; }\n"
	"	while read -r place; do\n"
	"		[ -z \"$ids\" ] || ids=$(echo \"$ids\" | GIT_OBJECT_DIRECTORY=$place git cat-file --batch-check | sed -n 's/ missing$//p')\n"
	"	done <\"$places\"\n"
	"	echo \"$ids\"\n"
	"}\n"
	"if [ -n \"$5\" ]; then\n"
	"	new=$(git for-each-ref --format='%(objectname)' | sort -u | fresh)\n"
	"	for id in $new; do\n"
	"		extra=\"$extra $(git for-each-ref --points-at \"$id\" --format='%(refname)' | grep -v '^refs/remotes/' || true)\"\n"
	"	done\n"
	"	lost=\n"
	"	for id in $(git rev-list --topo-order --max-count=1000 --reflog --not --glob=refs ${made:+\"$head\"} | fresh); do\n"
	"		[ -n \"$(git rev-list -1 \"$id\" --not --glob=refs ${made:+\"$head\"} $lost)\" ] || continue\n"
	"		lost=\"$lost $id\" ref=$6/$(git rev-parse --short=12 \"$id\")\n"
	"		git update-ref \"$ref\" \"$id\" >&2\n"
	"		temporary=\"$temporary $ref\"\n"
	"	done\n"
	"fi\n"
	"[ -n \"$made$extra$temporary\" ] || { echo 'nothing was changed' >&2; exit 1; }\n"
	"if [ -n \"$made\" ]; then git update-ref \"$made\" \"$head\" >&2; temporary=\"$temporary $made\"; fi\n"
	"failed=\n"
	"git bundle create --quiet - $made $extra $(for r in $temporary; do [ \"$r\" = \"$made\" ] || echo \"$r\"; done) ${4:+^$4} || failed=1\n"
	"for r in $temporary; do git update-ref -d \"$r\" >&2; done\n"
	"[ -z \"$failed\" ]\n";

// One of its own: an exec that nobody reads any more may still be at work on another.
char *export_ref(void)
{
	char id[ID_SIZE];
	id_make('e', id);
	return xasprintf("refs/heads/skep/%s", id);
}

void export_command(struct exec_request *x, const char *ref, const char *head, const char *base, const char *message, bool all)
{
	auto_free char *below = xasprintf("refs/skep/%s", strrchr(ref, '/') + 1);
	const char *argv[] = {"/bin/sh", "-c", script, "sh", head ? head : "", ref,
			      message ? message : "Changes made in a sandbox", base ? base : "", all ? "all" : "", below};
	for (size_t i = 0; i < countof(argv); i++)
		strv_add(&x->argv, argv[i]);
}
