// SPDX-License-Identifier: Apache-2.0
#include "isolate/trust.h"

#include "base/fs.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUNDLE_MAX (4u << 20)
#define CA "/.skep/ca.pem"
#define BUNDLE "/.skep/ca-bundle.pem"
#define STORE "/.skep/cacerts"

static const char *const bundles[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
				      "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem", NULL};
static const char *const stores[] = {"/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts",
				     "/etc/pki/ca-trust/extracted/java/cacerts", NULL};

// The first that is there, without links; only one in /etc can be covered.
static char *find(const char *const *list)
{
	for (; *list; list++) {
		char *real = realpath(*list, NULL);
		if (real && str_has_prefix(real, "/etc/"))
			return real;
		free(real);
	}
	return NULL;
}

void trust_scan(struct trust_host *t)
{
	struct err e;
	*t = (struct trust_host){
		.bundle = BUF_INIT(BUNDLE_MAX), .bundle_path = find(bundles), .store_path = find(stores)};
	for (const char *const *b = bundles; *b && !t->bundle.n; b++)
		if (fs_read(AT_FDCWD, *b, &t->bundle, &e))
			buf_clear(&t->bundle); // absent or no bundle at all: the next
	if (t->bundle.n && t->bundle.p[t->bundle.n - 1] != '\n')
		buf_byte(&t->bundle, '\n');
	jks_init(&t->store, buf_cstr(&t->bundle));
}

void trust_share(struct trust_host *t)
{
	t->bundle.p = mem_share(t->bundle.p, t->bundle.n ? t->bundle.n + 1 : 0);
	t->store.bytes.p = mem_share(t->store.bytes.p, t->store.bytes.n ? t->store.bytes.n + 1 : 0);
}

void trust_done(struct trust_host *t)
{
	buf_done(&t->bundle);
	free(t->bundle_path);
	free(t->store_path);
	jks_done(&t->store);
}

void trust_template(struct plan *p)
{
	static const char *const dirs[] = {"etc/chromium",
					   "etc/chromium/policies",
					   "etc/chromium/policies/managed",
					   "etc/opt",
					   "etc/opt/chrome",
					   "etc/opt/chrome/policies",
					   "etc/opt/chrome/policies/managed",
					   "etc/firefox",
					   "etc/firefox/policies",
					   NULL};
	for (const char *const *d = dirs; *d; d++)
		plan_add(p, MOUNT_DIR, NULL, *d, "755", 0);
	plan_add(p, MOUNT_LINK, NULL, "etc/chromium/policies/managed/skep.json", "/.skep/chromium.json", 0);
	plan_add(p, MOUNT_LINK, NULL, "etc/opt/chrome/policies/managed/skep.json", "/.skep/chromium.json", 0);
	plan_add(p, MOUNT_LINK, NULL, "etc/firefox/policies/policies.json", "/.skep/firefox.json", 0);
}

// --- files ---

// The base64 of the certificate as it stands in the PEM, without its lines.
static void chromium_policy(const char *pem, struct buf *out)
{
	auto_buf struct buf body = BUF_INIT(64u << 10);
	const char *p = strchr(pem, '\n'), *end = p ? strstr(p, "-----END") : NULL;
	for (; p && end && p < end; p++)
		if (!strchr("\r\n\t ", *p))
			buf_byte(&body, *p);
	struct jsonw w = {.b = out};
	jw_open(&w, '{');
	jw_key(&w, "CACertificates");
	jw_open(&w, '[');
	jw_str(&w, buf_cstr(&body), body.n);
	jw_close(&w, ']');
	jw_kbool(&w, "EncryptedClientHelloEnabled", false);
	jw_kstr(&w, "DnsOverHttpsMode", "off");
	jw_close(&w, '}');
}

static const char firefox_policy[] = "{\"policies\":{\"Certificates\":{\"Install\":[\"" CA
				     "\"]},\"DNSOverHTTPS\":{\"Enabled\":false,\"Locked\":true},"
				     "\"Preferences\":{\"network.dns.echconfig.enabled\":{\"Value\":false}}}}";

// In two parts: the large one is shared by all cells.
static int put(int dir, const char *name, const struct buf *first, const void *p, size_t n, struct err *e)
{
	if (unlinkat(dir, name, 0) && errno != ENOENT)
		return err_sys(e, "replace /.skep/%s", name);
	auto_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return err_sys(e, "write /.skep/%s", name);
	if (first && fs_write_all(fd, first->p, first->n, e))
		return -1;
	return fs_write_all(fd, p, n, e);
}

static int put_store(const struct trust_host *t, int dir, const char *ca_pem, struct err *e)
{
	auto_buf struct buf tail = BUF_INIT(128u << 10);
	return jks_tail(&t->store, ca_pem, &tail, e) ? -1 : put(dir, "cacerts", &t->store.bytes, tail.p, tail.n, e);
}

int trust_write(const struct trust_host *t, const char *ca_pem, int root, struct err *e)
{
	static const char wgetrc[] = "ca_certificate=" BUNDLE "\n";
	auto_buf struct buf chromium = BUF_INIT(128u << 10);
	auto_fd int dir = mount_target(root, ".skep", true, e);
	if (dir < 0)
		return -1;
	chromium_policy(ca_pem, &chromium);
	if (put(dir, "ca.pem", NULL, ca_pem, strlen(ca_pem), e) ||
	    put(dir, "ca-bundle.pem", &t->bundle, ca_pem, strlen(ca_pem), e) || put_store(t, dir, ca_pem, e) ||
	    put(dir, "chromium.json", NULL, chromium.p, chromium.n, e) ||
	    put(dir, "firefox.json", NULL, firefox_policy, strlen(firefox_policy), e) ||
	    put(dir, "wgetrc", NULL, wgetrc, strlen(wgetrc), e))
		return err_wrap(e, "certificate of the sandbox");
	return 0;
}

void trust_cover(const struct trust_host *t, const char *prefix, struct plan *p)
{
	auto_free char *bundle = xasprintf("%s" BUNDLE, prefix), *store = xasprintf("%s" STORE, prefix);
	if (t->bundle_path)
		plan_add(p, MOUNT_BIND, bundle, t->bundle_path + 1, NULL, 0);
	if (t->store_path)
		plan_add(p, MOUNT_BIND, store, t->store_path + 1, NULL, 0);
}

// --- variables ---

static void add_unless_set(char ***env, const char *kv)
{
	size_t n = strcspn(kv, "=") + 1;
	for (char **v = *env; v && *v; v++)
		if (!strncmp(*v, kv, n))
			return;
	strv_add(env, kv);
}

void trust_env(const struct trust_host *t, bool covered, char ***env)
{
	static const char *const always[] = {
		"NODE_EXTRA_CA_CERTS=" CA,    "DENO_CERT=" CA,
		"SSL_CERT_FILE=" BUNDLE,      "CURL_CA_BUNDLE=" BUNDLE,
		"GIT_SSL_CAINFO=" BUNDLE,     "REQUESTS_CA_BUNDLE=" BUNDLE,
		"PIP_CERT=" BUNDLE,	      "CARGO_HTTP_CAINFO=" BUNDLE,
		"AWS_CA_BUNDLE=" BUNDLE,      "npm_config_cafile=" BUNDLE,
		"BUNDLE_SSL_CA_CERT=" BUNDLE, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=" BUNDLE,
		"HTTPLIB2_CA_CERTS=" BUNDLE,  "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE=" BUNDLE,
		"NIX_SSL_CERT_FILE=" BUNDLE,  NULL,
	};
	for (const char *const *v = always; *v; v++)
		add_unless_set(env, *v);
	if (!covered || !t->bundle_path)
		add_unless_set(env, "WGETRC=/.skep/wgetrc");
	if (!covered || !t->store_path) // every JVM says on stderr that it has seen this: only where it must be
		add_unless_set(env, "JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=" STORE);
}
