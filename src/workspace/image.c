// SPDX-License-Identifier: Apache-2.0
#include "workspace/image.h"

#include "base/fs.h"
#include "base/mem.h"
#include "workspace/image_layer.h"
#include "workspace/image_layout.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

// The layers of an image in a tar lie in any order: it is unpacked beside the target first.
static int from_layout_tar(struct image_tree *t, int fd, const char *parts, struct err *e)
{
	const struct layer_sum none = {.kind = CHECK_NONE};
	struct image_tree p;
	struct err later;
	if (image_tree_open(&p, parts, e))
		return -1;
	int rc = image_layer_apply(&p, fd, false, &none, e);
	if (!rc)
		rc = image_layout_apply(t, p.root, image_layout_of(p.root), e);
	image_tree_close(&p);
	if (fs_remove_tree(AT_FDCWD, parts, rc ? &later : e))
		rc = -1;
	return rc;
}

static int from_tar(struct image_tree *t, int fd, const char *into, struct err *e)
{
	const struct layer_sum none = {.kind = CHECK_NONE};
	int layout = image_layer_is_layout(fd, e);
	if (layout < 0)
		return -1;
	if (!layout)
		return image_layer_apply(t, fd, false, &none, e);
	auto_free char *parts = xasprintf("%s.parts", into);
	return from_layout_tar(t, fd, parts, e);
}

static int fill(struct image_tree *t, int src, const char *source, const char *into, struct err *e)
{
	struct stat st;
	if (fstat(src, &st))
		return err_sys(e, "stat %s", source);
	if (S_ISREG(st.st_mode))
		return from_tar(t, src, into, e);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, "neither a directory nor a file");
	enum layout kind = image_layout_of(src);
	return kind == LAYOUT_NONE ? image_layer_copy(t, source, e) : image_layout_apply(t, src, kind, e);
}

int image_import(const char *source, const char *into, struct image_result *out, struct err *e)
{
	struct image_tree t;
	struct err later;
	// non-blocking: a FIFO must not hang us before we know that it is one
	auto_fd int src = fs_open(AT_FDCWD, source, O_RDONLY | O_NONBLOCK, 0, e);
	if (src < 0) {
		if (e->sys == ENOENT || e->sys == EACCES || e->sys == ENOTDIR)
			e->kind = ERR_INVALID;
		return -1;
	}
	int rc = image_tree_open(&t, into, e);
	bool ours = !rc;
	if (!rc && (fill(&t, src, source, into, e) || image_tree_finish(&t, e)))
		rc = err_wrap(e, "import of %s", source);
	if (!rc)
		*out = t.made;
	image_tree_close(&t);
	if (rc && ours && fs_remove_tree(AT_FDCWD, into, &later))
		return err_wrap(e, "%s could not be removed again", into);
	return rc;
}
