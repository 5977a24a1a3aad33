// SPDX-License-Identifier: Apache-2.0
// image: the root file systems beside the host's own.
#include "base/jsonw.h"
#include "base/mem.h"
#include "cli/api.h"
#include "cli/listing.h"
#include "cli/pull.h"
#include "cli/request.h"
#include "cli/verbs.h"

struct image_opts {
	bool json, quiet, missing;
	const char *name, *secret;
};

static const struct opt ls_opts[] = {
	FLAG(AT(struct image_opts, quiet), "quiet", 'q', "print ids only"),
	FLAG(AT(struct image_opts, json), "json", 0, "print JSON"),
	OPTS_END,
};

static const struct opt import_opts[] = {
	VALUE(OPT_STR, AT(struct image_opts, name), "name", 0, "NAME", "call it NAME"),
	FLAG(AT(struct image_opts, json), "json", 0, "print the whole image, not only its id"),
	OPTS_END,
};

static const struct opt pull_opts[] = {
	VALUE(OPT_STR, AT(struct image_opts, name), "name", 0, "NAME", "call it NAME, too"),
	HINTED(OPT_STR, HINT_SECRET, AT(struct image_opts, secret), "secret", 0, "NAME", "log in with this secret, which is for the registry's host"),
	FLAG(AT(struct image_opts, missing), "missing", 0, "take the image that is here, if there is one, and ask nobody"),
	FLAG(AT(struct image_opts, quiet), "quiet", 'q', "show no progress"),
	FLAG(AT(struct image_opts, json), "json", 0, "print the whole image, not only its id"),
	OPTS_END,
};

static void ls_row(struct table *t, const json_t *image)
{
	auto_buf struct buf size = BUF_INIT(64);
	out_size(&size, json_u64(image, "bytes"));
	table_add(t, json_str(image, "id"));
	table_add(t, json_str(image, "name"));
	table_add(t, buf_cstr(&size));
	table_add(t, json_str(image, "created"));
	table_add(t, json_str(image, "source"));
}

static int ls_run(const struct call *c)
{
	static const char *const heads[] = {"ID", "NAME", "SIZE", "CREATED", "SOURCE", NULL};
	const struct image_opts *o = c->opts;
	return listing_run(c, &(struct listing){.path = "/v1/images", .member = "images", .id = "id", .heads = heads, .row = ls_row,
						.json = o->json, .quiet = o->quiet});
}

static int print_image(const json_t *image, bool json)
{
	if (json)
		return out_json(image);
	auto_buf struct buf b = BUF_INIT(256);
	buf_fmt(&b, "%s\n", json_str(image, "id"));
	return out_flush(&b);
}

static int import_run(const struct call *c)
{
	const struct image_opts *o = c->opts;
	struct err e;
	auto_api struct api a = API_CLOSED;
	auto_buf struct buf body = BUF_INIT(64 << 10);
	struct jsonw w = {.b = &body};
	auto_free char *source = request_path("", c->words[0], &e);
	if (!source)
		return out_fail(c, &e);
	jw_open(&w, '{');
	jw_kstr(&w, "source", source);
	jw_kstr(&w, "name", o->name);
	jw_close(&w, '}');
	auto_json json_t *j = api_open(&a, &e) ? NULL : api_json(&a, "POST", "/v1/images", buf_cstr(&body), &e);
	if (!j)
		return out_fail(c, &e);
	return print_image(j, o->json);
}

static int pull_run(const struct call *c)
{
	const struct image_opts *o = c->opts;
	struct err e;
	auto_json json_t *j = pull_image(&(struct pull_wants){c->words[0], o->name, o->secret, o->missing, o->quiet}, &e);
	return j ? print_image(j, o->json) : out_fail(c, &e);
}

static int rm_run(const struct call *c)
{
	return listing_remove(c, "/v1/images");
}

const struct cmd cmd_image_ls = {
	.name = "image ls",
	.args = "",
	.help = "list the images that are here",
	.opts = ls_opts,
	.opts_size = sizeof(struct image_opts),
	.tail = -1,
	.run = ls_run,
};

const struct cmd cmd_image_pull = {
	.name = "image pull",
	.args = "REF",
	.help = "fetch an image from a registry: alpine:3.20, ghcr.io/a/b@sha256:...",
	.notes = "Logins are taken from --secret (user:password as basic, bound to the registry's host) or from what `docker login`\n"
		 "wrote to ~/.docker/config.json; credential helpers are not run. A pull that is broken off goes on where it was.\n"
		 "image_mirrors, image_insecure and ca_file in config.yaml say where registries are reached and what is believed.\n",
	.opts = pull_opts,
	.opts_size = sizeof(struct image_opts),
	.min_words = 1,
	.max_words = 1,
	.tail = -1,
	.run = pull_run,
};

const struct cmd cmd_image_import = {
	.name = "image import",
	.args = "PATH",
	.help = "import a root file system: a directory, a tar file or an OCI layout",
	.opts = import_opts,
	.opts_size = sizeof(struct image_opts),
	.min_words = 1,
	.max_words = 1,
	.tail = -1,
	.hint = HINT_FILE,
	.here = "it reads files of this machine, and the image would be on the other one; run it there",
	.run = import_run,
};

const struct cmd cmd_image_rm = {
	.name = "image rm",
	.args = "IMAGE...",
	.help = "remove images that no sandbox uses",
	.min_words = 1,
	.max_words = -1,
	.tail = -1,
	.hint = HINT_IMAGE,
	.run = rm_run,
};
