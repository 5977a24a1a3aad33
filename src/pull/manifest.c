// SPDX-License-Identifier: Apache-2.0
#include "pull/manifest.h"

#include "base/mem.h"
#include "base/str.h"
#include "model/imageref.h"
#include <stdlib.h>
#include <string.h>

#define INDEX_ENTRIES 1000
#define CONFIG_ITEMS 1000
#define SHOWN_PLATFORMS 8

#if defined(__x86_64__)
#define MACHINE "amd64"
#elif defined(__aarch64__)
#define MACHINE "arm64"
#else
#error "only x86_64 and aarch64 have a name here"
#endif

#define SCHEMA_1 "application/vnd.docker.distribution.manifest.v1+"

static const char *const image_types[] = {
	"application/vnd.oci.image.manifest.v1+json",
	"application/vnd.docker.distribution.manifest.v2+json",
};
static const char *const index_types[] = {
	"application/vnd.oci.image.index.v1+json",
	"application/vnd.docker.distribution.manifest.list.v2+json",
};
static const char *const config_types[] = {
	"application/vnd.oci.image.config.v1+json",
	"application/vnd.docker.container.image.v1+json",
};

static bool type_is_among(const char *type, const char *const list[2])
{
	return !strcmp(type, list[0]) || !strcmp(type, list[1]);
}

// Text of a registry for a message: short, and nothing in it can move a cursor.
static void manifest_show(const char *text, char out[80])
{
	size_t n = 0;
	for (; *text && n < 79; text++)
		out[n++] = *text < 0x20 || *text > 0x7e ? '?' : *text;
	out[n] = 0;
}

int pull_document_kind(const json_t *doc, const char *type, enum pull_document *out, struct err *e)
{
	const char *own = json_str(doc, "mediaType");
	char shown[80];
	const char *named = *own ? own : type;
	auto_free char *plain = xstrndup(named, strcspn(named, "; "));
	if (str_has_prefix(plain, SCHEMA_1) || json_u64(doc, "schemaVersion") == 1)
		return err_set(e, ERR_UNSUPPORTED, "the registry has this image in an old form (manifest schema 1), which names its layers by no "
			       "size and is not read: push it again with a current tool");
	if (type_is_among(plain, index_types) && json_is_array(json_object_get(doc, "manifests"))) {
		*out = PULL_INDEX;
		return 0;
	}
	if (type_is_among(plain, image_types) && json_is_array(json_object_get(doc, "layers"))) {
		*out = PULL_IMAGE;
		return 0;
	}
	if (!*own && json_is_array(json_object_get(doc, "manifests"))) {
		*out = PULL_INDEX; // the OCI index may go without its type
		return 0;
	}
	if (!*own && json_is_array(json_object_get(doc, "layers"))) {
		*out = PULL_IMAGE;
		return 0;
	}
	manifest_show(plain, shown);
	return err_set(e, ERR_UNSUPPORTED, "the registry answers with something that is no image (%s)", *shown ? shown : "of no type");
}

static int blob_read(const json_t *desc, struct pull_blob *out, struct err *e)
{
	const char *digest = json_str(desc, "digest");
	const json_t *size = json_object_get(desc, "size");
	char shown[80];
	if (!image_digest_is(digest)) {
		manifest_show(digest, shown);
		return err_set(e, ERR_UNSUPPORTED, "the manifest names a part by \"%s\": only sha256 digests are known", shown);
	}
	if (!json_is_integer(size) || json_integer_value(size) < 0)
		return err_set(e, ERR_INVALID, "the manifest names a part without its size");
	memcpy(out->digest, digest, PULL_DIGEST);
	out->size = (uint64_t)json_integer_value(size);
	return 0;
}

// 0: not for this machine; a higher number is a better choice.
static int platform_rank(const json_t *platform)
{
	const char *variant = json_str(platform, "variant");
	if (strcmp(json_str(platform, "os"), "linux") || strcmp(json_str(platform, "architecture"), MACHINE))
		return 0;
	if (!*variant || !strcmp(variant, "v8"))
		return 2;
	return 1; // may need more than this machine has; taken if there is nothing else
}

static void platform_add(struct buf *b, const json_t *platform)
{
	char os[80], machine[80];
	manifest_show(json_str(platform, "os"), os);
	manifest_show(json_str(platform, "architecture"), machine);
	if (strcmp(os, "unknown")) // what is no image: attestations
		buf_fmt(b, "%s%.20s/%.20s", b->n ? ", " : "", os, machine);
}

int pull_index_choose(const json_t *index, struct pull_blob *out, struct err *e)
{
	const json_t *list = json_object_get(index, "manifests"), *desc, *chosen = NULL;
	auto_buf struct buf seen = BUF_INIT(400);
	size_t i;
	int best = 0;
	if (json_array_size(list) > INDEX_ENTRIES)
		return err_set(e, ERR_LIMIT, "the image's index has more than %d entries", INDEX_ENTRIES);
	json_array_foreach(list, i, desc)
	{
		const json_t *platform = json_object_get(desc, "platform");
		int rank = platform_rank(platform);
		if (rank > best) {
			best = rank;
			chosen = desc;
		}
		if (i < SHOWN_PLATFORMS)
			platform_add(&seen, platform);
	}
	if (chosen)
		return blob_read(chosen, out, e);
	return err_set(e, ERR_NOT_FOUND, "there is no image for linux/" MACHINE " (there is: %s)", seen.n ? seen.p : "nothing");
}

static bool layer_is_known(const struct pull_manifest *m, const struct pull_blob *b)
{
	for (size_t i = 0; i < m->n; i++)
		if (!strcmp(m->layers[i].digest, b->digest))
			return true;
	return false;
}

static int layer_read(struct pull_manifest *m, const json_t *desc, struct err *e)
{
	struct pull_blob b;
	char shown[80];
	const char *type = json_str(desc, "mediaType");
	if (*type && (!strstr(type, "tar") || strstr(type, "encrypted") || strstr(type, "foreign"))) {
		manifest_show(type, shown);
		return err_set(e, ERR_UNSUPPORTED, "a layer of kind %s can not be unpacked", shown);
	}
	if (blob_read(desc, &b, e))
		return -1;
	if (layer_is_known(m, &b))
		return 0;
	if (b.size > PULL_BYTES - m->bytes)
		return err_set(e, ERR_LIMIT, "the image's layers are larger than %llu GiB", PULL_BYTES >> 30);
	m->bytes += b.size;
	m->layers[m->n++] = b;
	return 0;
}

int pull_manifest_read(const json_t *doc, struct pull_manifest *out, struct err *e)
{
	struct pull_manifest m = {0};
	const json_t *config = json_object_get(doc, "config"), *layers = json_object_get(doc, "layers"), *desc;
	const char *type = json_str(config, "mediaType");
	char shown[80];
	size_t i;
	if (!type_is_among(type, config_types)) {
		manifest_show(type, shown);
		return err_set(e, ERR_UNSUPPORTED, "this is no image with a root file system (its configuration is %s)", *shown ? shown : "of no type");
	}
	if (json_array_size(layers) > PULL_LAYERS)
		return err_set(e, ERR_LIMIT, "the image has more than %d layers", PULL_LAYERS);
	if (blob_read(config, &m.config, e))
		return -1;
	if (m.config.size > PULL_DOCUMENT_MAX)
		return err_set(e, ERR_LIMIT, "the image's configuration is larger than %u MiB", PULL_DOCUMENT_MAX >> 20);
	m.layers = xcalloc(json_array_size(layers) + 1, sizeof *m.layers);
	json_array_foreach(layers, i, desc)
		if (layer_read(&m, desc, e)) {
			pull_manifest_done(&m);
			return -1;
		}
	*out = m;
	return 0;
}

void pull_manifest_done(struct pull_manifest *m)
{
	free(m->layers);
	*m = (struct pull_manifest){0};
}

static void config_texts(struct jsonw *w, const char *key, const json_t *list)
{
	size_t i;
	const json_t *v;
	jw_key(w, key);
	jw_open(w, '[');
	json_array_foreach(list, i, v)
		if (i < CONFIG_ITEMS && json_is_string(v))
			jw_str(w, json_string_value(v), strlen(json_string_value(v)));
	jw_close(w, ']');
}

// NAME=value; anything else would not be a variable.
static void config_env(struct jsonw *w, const json_t *list)
{
	size_t i;
	const json_t *v;
	jw_key(w, "env");
	jw_open(w, '[');
	json_array_foreach(list, i, v)
	{
		const char *text = json_is_string(v) ? json_string_value(v) : "";
		if (i < CONFIG_ITEMS && strchr(text, '=') > text)
			jw_str(w, text, strlen(text));
	}
	jw_close(w, ']');
}

void pull_config_write(struct jsonw *w, const json_t *config)
{
	const json_t *c = json_object_get(config, "config");
	jw_open(w, '{');
	config_env(w, json_object_get(c, "Env"));
	jw_kstr(w, "user", json_str(c, "User"));
	jw_kstr(w, "workdir", json_str(c, "WorkingDir"));
	config_texts(w, "entrypoint", json_object_get(c, "Entrypoint"));
	config_texts(w, "cmd", json_object_get(c, "Cmd"));
	jw_close(w, '}');
}
