// SPDX-License-Identifier: Apache-2.0
// Which files are read, in the order in which their tools let one override the other.
#include "workspace/registries_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (256u << 10)
#define ENTRIES_MAX 256

static const struct {
	enum registry_file kind;
	bool private; // below the caller's home
	const char *path;
} files[] = {
	{FILE_NPMRC, true, ".npmrc"},
	{FILE_NPMRC, false, "usr/local/etc/npmrc"},
	{FILE_NPMRC, false, "etc/npmrc"},
	{FILE_PIP_CONF, true, ".config/pip/pip.conf"},
	{FILE_PIP_CONF, true, ".pip/pip.conf"},
	{FILE_PIP_CONF, false, "etc/xdg/pip/pip.conf"},
	{FILE_PIP_CONF, false, "etc/pip.conf"},
	{FILE_UV_TOML, true, ".config/uv/uv.toml"},
	{FILE_UV_TOML, false, "etc/uv/uv.toml"},
	{FILE_CARGO_TOML, true, ".cargo/config.toml"},
	{FILE_CARGO_TOML, true, ".cargo/config"},
	{FILE_GO_ENV, true, ".config/go/env"},
	{FILE_GO_ENV, false, "usr/local/go/go.env"},
	{FILE_GO_ENV, false, "usr/lib/go/go.env"},
	{FILE_GO_ENV, false, "usr/lib/golang/go.env"},
	{FILE_MAVEN_XML, true, ".m2/settings.xml"},
	{FILE_MAVEN_XML, false, "etc/maven/settings.xml"},
	{FILE_MAVEN_XML, false, "usr/share/maven/conf/settings.xml"},
	{FILE_YARNRC, true, ".yarnrc"},
	{FILE_GEMRC, true, ".gemrc"},
	{FILE_GEMRC, false, "etc/gemrc"},
	{FILE_COMPOSER_JSON, true, ".config/composer/config.json"},
	{FILE_COMPOSER_JSON, true, ".composer/config.json"},
	{FILE_NUGET_CONFIG, true, ".nuget/NuGet/NuGet.Config"},
	{FILE_NUGET_CONFIG, true, ".config/NuGet/NuGet.Config"},
	{FILE_CONDARC, true, ".condarc"},
	{FILE_CONDARC, false, "etc/conda/.condarc"},
	{FILE_GRADLE, true, ".gradle/init.gradle"},
	{FILE_GRADLE, true, ".gradle/init.gradle.kts"},
	{FILE_APT_LIST, false, "etc/apt/sources.list"},
	{FILE_NPM_OWN, false,
	 "usr/local/lib/node_modules/npm/node_modules/@npmcli/config/lib/definitions/definitions.js"},
	{FILE_NPM_OWN, false, "usr/lib/node_modules/npm/node_modules/@npmcli/config/lib/definitions/definitions.js"},
	{FILE_NPM_OWN, false, "usr/share/nodejs/@npmcli/config/lib/definitions/definitions.js"},
	{FILE_NPM_OWN, false, "usr/share/nodejs/npm/lib/utils/config/definitions.js"},
	{FILE_NPM_OWN, false, "usr/lib/node_modules/npm/lib/utils/config/definitions.js"},
	{FILE_PIP_OWN, false, "usr/lib/python3/dist-packages/pip/_internal/models/index.py"},
};

// An image is somebody else's: its links stay inside, and nothing but a small ordinary file is read.
static int open_at(int dir, bool private, const char *path, int flags)
{
	struct err e;
	flags |= O_RDONLY | O_NONBLOCK | O_NOCTTY;
	return private ? fs_open(dir, path, flags, 0, &e) : fs_open_in_root(dir, path, flags, &e);
}

static void take_one(struct registries *r, enum registry_file kind, int dir, bool private, const char *path)
{
	auto_buf struct buf b = BUF_INIT(FILE_MAX);
	auto_fd int fd = open_at(dir, private, path, 0);
	struct stat st;
	struct err e;
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || fs_read_fd(fd, &b, &e))
		return;
	registries_take_file(r, kind, private, buf_cstr(&b), b.n);
}

static void take_apt_dir(struct registries *r, int root)
{
	auto_fd int fd = open_at(root, false, "etc/apt/sources.list.d", O_DIRECTORY);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	if (!d)
		return;
	take_fd(&fd);
	struct dirent *ent;
	for (int left = ENTRIES_MAX; left > 0 && (ent = readdir(d)); left--) {
		auto_free char *path = xasprintf("etc/apt/sources.list.d/%s", ent->d_name);
		if (str_has_suffix(path, ".list"))
			take_one(r, FILE_APT_LIST, root, false, path);
		else if (str_has_suffix(path, ".sources"))
			take_one(r, FILE_APT_SOURCES, root, false, path);
	}
	closedir(d);
}

static bool is_listed(const struct registries *r, enum registry_tool t, const char *host)
{
	auto_free char *entry = xasprintf("%s\t%s", host, registry_tool_name(t));
	for (size_t i = 0; r->list && r->list[i]; i++)
		if (!strcmp(r->list[i], entry))
			return true;
	return false;
}

// HOST-HASH/config.json of each index that cargo has used tells where its files are downloaded from.
static void take_cargo_indexes(struct registries *r, int home)
{
	auto_fd int fd = open_at(home, true, ".cargo/registry/index", O_DIRECTORY);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	if (!d)
		return;
	take_fd(&fd);
	struct dirent *ent;
	for (int left = ENTRIES_MAX; left > 0 && (ent = readdir(d)); left--) {
		auto_free char *path = xasprintf(".cargo/registry/index/%s/config.json", ent->d_name);
		const char *dash = strrchr(ent->d_name, '-');
		auto_free char *host = xstrndup(ent->d_name, dash ? (size_t)(dash - ent->d_name) : 0);
		auto_free char *url = xasprintf("https://%s/", host);
		if (!registries_settled(r, REGISTRY_CARGO))
			registry_more(r, REGISTRY_CARGO, str_of(url));
		if (is_listed(r, REGISTRY_CARGO, host))
			take_one(r, FILE_CARGO_INDEX, home, true, path);
	}
	closedir(d);
}

// Images of python have one below /usr/local, by version.
static void take_pip_versions(struct registries *r, int root)
{
	static const char *const places[] = {"usr/local/lib", "usr/lib"};
	for (int minor = 6; minor < 30 && !registries_settled(r, REGISTRY_PIP); minor++)
		for (size_t i = 0; i < countof(places); i++) {
			auto_free char *path = xasprintf("%s/python3.%d/site-packages/pip/_internal/models/index.py",
							 places[i], minor);
			take_one(r, FILE_PIP_OWN, root, false, path);
		}
}

void registries_from_files(const char *home, const char *root, char *const *env, struct registries *out)
{
	struct registries r = {0};
	struct err e;
	auto_fd int home_fd = fs_open(AT_FDCWD, home, O_PATH | O_DIRECTORY, 0, &e);
	auto_fd int root_fd = fs_open(AT_FDCWD, root, O_PATH | O_DIRECTORY, 0, &e);
	registries_take_env(&r, env);
	for (size_t i = 0; i < countof(files); i++) {
		int dir = files[i].private ? home_fd : root_fd;
		if (dir >= 0)
			take_one(&r, files[i].kind, dir, files[i].private, files[i].path);
	}
	if (root_fd >= 0) {
		take_apt_dir(&r, root_fd);
		take_pip_versions(&r, root_fd);
	}
	if (home_fd >= 0)
		take_cargo_indexes(&r, home_fd);
	*out = r;
}
