// SPDX-License-Identifier: Apache-2.0
// Manifests are hostile: bounded, their names resolved inside the layout only, and every blob they name by
// digest is compared with it.
#include "workspace/image_layout.h"

#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "workspace/image_layer.h"
#include <fcntl.h>
#include <string.h>

#define INDEX_DEPTH 3
#define DESCRIPTORS 1000 // looked at in all indexes of one layout

#if defined(__x86_64__)
#define MACHINE "amd64"
#elif defined(__aarch64__)
#define MACHINE "arm64"
#elif defined(__riscv)
#define MACHINE "riscv64"
#elif defined(__powerpc64__)
#define MACHINE "ppc64le"
#elif defined(__s390x__)
#define MACHINE "s390x"
#elif defined(__i386__)
#define MACHINE "386"
#else
#define MACHINE "arm"
#endif

// A file of the layout. Links in it are followed (docker save makes some), but never out of it.
static int open_part(int dir, const char *name, struct stat *out, struct err *e)
{
	char shown[200];
	auto_fd int fd = fs_open_in_root(dir, name, O_RDONLY | O_NONBLOCK, e);
	if (fd < 0)
		return err_set(e, ERR_INVALID, "the image has no readable %s", image_show(name, shown));
	if (fstat(fd, out) || !S_ISREG(out->st_mode))
		return err_set(e, ERR_INVALID, "%s in the image is not a file", image_show(name, shown));
	return take_fd(&fd);
}

static json_t *read_json(int dir, const char *name, const char *want_hex, struct err *e)
{
	char shown[200], got[SHA256_HEX];
	struct stat st;
	auto_buf struct buf text = BUF_INIT(IMAGE_MANIFEST);
	auto_fd int fd = open_part(dir, name, &st, e);
	if (fd < 0)
		return NULL;
	if (fs_read_fd(fd, &text, e)) {
		err_wrap(e, "%s", image_show(name, shown));
		return NULL;
	}
	sha256_hex(buf_cstr(&text), text.n, got);
	if (want_hex && strcmp(got, want_hex)) {
		err_set(e, ERR_INVALID, "%s has another content: sha256:%s", image_show(name, shown), got);
		return NULL;
	}
	json_t *j = json_read(buf_cstr(&text), text.n, e);
	if (!j)
		err_wrap(e, "%s", image_show(name, shown));
	return j;
}

static int parse_digest(const char *s, char out_hex[SHA256_HEX], struct err *e)
{
	char shown[200];
	if (!str_has_prefix(s, "sha256:"))
		return err_set(e, ERR_UNSUPPORTED, "digest \"%s\": only sha256 is known", image_show(s, shown));
	s += strlen("sha256:");
	if (strlen(s) != 64 || strspn(s, "0123456789abcdef") != 64)
		return err_set(e, ERR_INVALID, "malformed digest \"%s\"", image_show(s, shown));
	memcpy(out_hex, s, SHA256_HEX);
	return 0;
}

static json_t *read_blob(int dir, const char *hex, struct err *e)
{
	auto_free char *name = xasprintf("blobs/sha256/%s", hex);
	return read_json(dir, name, hex, e);
}

// The image chosen from the indexes. One that names this machine is preferred to one that names none.
struct choice {
	char hex[SHA256_HEX];
	bool exact, several;
	unsigned looked;
};

static void offer(struct choice *c, const char *hex, bool exact)
{
	if (c->hex[0] && c->exact == exact) {
		c->several |= strcmp(c->hex, hex) != 0;
		return;
	}
	if (c->hex[0] && c->exact)
		return;
	*c = (struct choice){.exact = exact, .looked = c->looked};
	memcpy(c->hex, hex, SHA256_HEX);
}

static int look_into(int dir, const json_t *index, int depth, struct choice *c, struct err *e);

static int look_at(int dir, const json_t *desc, int depth, struct choice *c, struct err *e)
{
	char hex[SHA256_HEX];
	const json_t *platform = json_object_get(desc, "platform");
	if (++c->looked > DESCRIPTORS)
		return err_set(e, ERR_LIMIT, "the image's index is too long");
	if (platform && (strcmp(json_str(platform, "os"), "linux") ||
			 strcmp(json_str(platform, "architecture"), MACHINE)))
		return 0;
	if (parse_digest(json_str(desc, "digest"), hex, e))
		return -1;
	auto_json json_t *blob = read_blob(dir, hex, e);
	if (!blob)
		return -1;
	if (json_object_get(blob, "manifests"))
		return look_into(dir, blob, depth + 1, c, e);
	if (json_object_get(blob, "layers"))
		offer(c, hex, platform);
	return 0;
}

static int look_into(int dir, const json_t *index, int depth, struct choice *c, struct err *e)
{
	const json_t *list = json_object_get(index, "manifests"), *desc;
	size_t i;
	if (depth > INDEX_DEPTH || !json_is_array(list))
		return err_set(e, ERR_INVALID, "the image's index is malformed");
	json_array_foreach(list, i, desc)
		if (look_at(dir, desc, depth, c, e))
			return -1;
	return 0;
}

static int check_machine(const json_t *config, struct err *e)
{
	char shown[200];
	const char *os = json_str(config, "os"), *arch = json_str(config, "architecture");
	if ((*os && strcmp(os, "linux")) || (*arch && strcmp(arch, MACHINE)))
		return err_set(e, ERR_INVALID, "the image is for %s, this machine is linux/" MACHINE,
			       image_show(*arch ? arch : os, shown));
	return 0;
}

static int apply_blob(struct image_tree *t, int dir, const json_t *desc, struct err *e)
{
	struct layer_sum sum = {.kind = CHECK_BLOB};
	struct stat st;
	char shown[200];
	const char *type = json_str(desc, "mediaType");
	if (*type && (!strstr(type, "tar") || strstr(type, "encrypted")))
		return err_set(e, ERR_UNSUPPORTED, "a layer of kind %s", image_show(type, shown));
	if (parse_digest(json_str(desc, "digest"), sum.hex, e))
		return -1;
	auto_free char *name = xasprintf("blobs/sha256/%s", sum.hex);
	auto_fd int fd = open_part(dir, name, &st, e);
	if (fd < 0)
		return -1;
	if (json_u64(desc, "size") != (uint64_t)st.st_size)
		return err_set(e, ERR_INVALID, "layer sha256:%s has another size than its manifest says", sum.hex);
	return image_layer_apply(t, fd, true, &sum, e);
}

static int apply_oci(struct image_tree *t, int dir, struct err *e)
{
	char hex[SHA256_HEX];
	struct choice c = {0};
	auto_json json_t *index = read_json(dir, "index.json", NULL, e);
	if (!index || look_into(dir, index, 0, &c, e))
		return -1;
	if (!c.hex[0])
		return err_set(e, ERR_INVALID, "there is no image for linux/" MACHINE " in it");
	if (c.several)
		return err_set(e, ERR_INVALID, "there are several images in it: export one");
	auto_json json_t *manifest = read_blob(dir, c.hex, e);
	if (!manifest || parse_digest(json_str(json_object_get(manifest, "config"), "digest"), hex, e))
		return -1;
	auto_json json_t *config = read_blob(dir, hex, e);
	if (!config || check_machine(config, e))
		return -1;
	const json_t *layers = json_object_get(manifest, "layers"), *desc;
	size_t i;
	if (!json_is_array(layers) || json_array_size(layers) > IMAGE_LAYERS)
		return err_set(e, ERR_INVALID, "the image's manifest is malformed");
	json_array_foreach(layers, i, desc)
		if (apply_blob(t, dir, desc, e))
			return -1;
	return 0;
}

static int apply_docker_layer(struct image_tree *t, int dir, const char *name, const char *diff_id, struct err *e)
{
	struct layer_sum sum = {.kind = CHECK_PLAIN};
	struct stat st;
	if (!name)
		return err_set(e, ERR_INVALID, "the image's manifest is malformed");
	if (parse_digest(diff_id ? diff_id : "", sum.hex, e))
		return -1;
	auto_fd int fd = open_part(dir, name, &st, e);
	return fd < 0 ? -1 : image_layer_apply(t, fd, true, &sum, e);
}

static int apply_docker(struct image_tree *t, int dir, struct err *e)
{
	auto_json json_t *manifest = read_json(dir, "manifest.json", NULL, e);
	if (!manifest)
		return -1;
	if (json_array_size(manifest) != 1)
		return err_set(e, ERR_INVALID, "there are several images in it: save one");
	const json_t *image = json_array_get(manifest, 0), *layers = json_object_get(image, "Layers"), *layer;
	auto_json json_t *config = read_json(dir, json_str(image, "Config"), NULL, e);
	if (!config || check_machine(config, e))
		return -1;
	const json_t *sums = json_object_get(json_object_get(config, "rootfs"), "diff_ids");
	size_t i, n = json_array_size(layers);
	if (!json_is_array(layers) || n != json_array_size(sums) || n > IMAGE_LAYERS)
		return err_set(e, ERR_INVALID, "the image's manifest is malformed");
	json_array_foreach(layers, i, layer)
		if (apply_docker_layer(t, dir, json_string_value(layer), json_string_value(json_array_get(sums, i)), e))
			return -1;
	return 0;
}

static bool is_docker_manifest(int dir)
{
	struct err e;
	auto_json json_t *j = read_json(dir, "manifest.json", NULL, &e);
	return j && json_is_array(json_object_get(json_array_get(j, 0), "Layers"));
}

enum layout image_layout_of(int dir)
{
	if (fs_exists(dir, "oci-layout") && fs_exists(dir, "index.json"))
		return LAYOUT_OCI;
	if (fs_exists(dir, "manifest.json") && is_docker_manifest(dir))
		return LAYOUT_DOCKER;
	return LAYOUT_NONE;
}

int image_layout_apply(struct image_tree *t, int dir, enum layout kind, struct err *e)
{
	switch (kind) {
	case LAYOUT_OCI:
		return apply_oci(t, dir, e);
	case LAYOUT_DOCKER:
		return apply_docker(t, dir, e);
	case LAYOUT_NONE:
		break;
	}
	return err_set(e, ERR_INVALID, "neither an OCI layout nor a docker archive with one image");
}
