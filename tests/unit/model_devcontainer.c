// SPDX-License-Identifier: Apache-2.0
// devcontainer.json: what is taken over, what is named as left out, and that nothing of the host gets in.
#include "base/mem.h"
#include "model/devcontainer.h"
#include "model/jsonc.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

static struct project read_one(const char *text, const char *ws_path)
{
	struct project p;
	struct err e = {0};
	if (devcontainer_parse(text, strlen(text), "/home/me/proj", ws_path, &p, &e))
		fail_msg("%s", e.msg);
	return p;
}

static bool has(char *const *v, const char *part)
{
	for (; v && *v; v++)
		if (strstr(*v, part))
			return true;
	return false;
}

static void comments_and_commas(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
		{"{// x\n\"a\": 1,}", "{    \n\"a\": 1 }"},
		{"[1, 2, /* , */ ]", "[1, 2          ]"},
		{"{\"a\": \"// no /* comment */ ,}\"}", "{\"a\": \"// no /* comment */ ,}\"}"},
		{"{\"a\": \"\\\"//\"}", "{\"a\": \"\\\"//\"}"},
		{"[,]", "[,]"},
		{"[1,,]", "[1,,]"},
		{"{\"a\":,}", "{\"a\":,}"},
		{"/* never", "/* never"},
		{"/*/", "/*/"},
		{"/**/1", "    1"},
		{"1//", "1  "},
		{"\"x", "\"x"},
		{"\"\\", "\"\\"},
	};
	for (size_t i = 0; i < countof(rows); i++) {
		auto_buf struct buf b = BUF_INIT(1000);
		jsonc_strip(rows[i][0], strlen(rows[i][0]), &b);
		assert_string_equal(buf_cstr(&b), rows[i][1]);
	}
}

static void a_usual_file(void **state)
{
	(void)state;
	struct project p = read_one("// For format details, see https://aka.ms/devcontainer.json\n{\n"
				    "\t\"name\": \"Node\", /* the name */\n"
				    "\t\"image\": \"mcr.example/devcontainers/node:20\",\n"
				    "\t\"features\": {},\n"
				    "\t\"onCreateCommand\": \"echo create\",\n"
				    "\t\"updateContentCommand\": [\"npm\", \"ci\", \"it's\"],\n"
				    "\t\"postCreateCommand\": {\"one\": \"make a\", \"two\": [\"make\", \"b\"]},\n"
				    "\t\"containerEnv\": {\"A\": \"1\", \"WS\": \"${containerWorkspaceFolder}/x\"},\n"
				    "\t\"remoteEnv\": {\"B\": \"${containerEnv:A}2\", \"C\": null},\n"
				    "\t\"forwardPorts\": [3000, \"db:5432\"],\n"
				    "\t\"customizations\": {\"vscode\": {}},\n"
				    "\t\"remoteUser\": \"node\",\n"
				    "}\n", NULL);
	assert_string_equal(p.image, "mcr.example/devcontainers/node:20");
	assert_int_equal(strv_len(p.setup), 4);
	assert_string_equal(p.setup[0], "echo create");
	assert_string_equal(p.setup[1], "'npm' 'ci' 'it'\\''s'");
	assert_string_equal(p.setup[2], "make a");
	assert_string_equal(p.setup[3], "'make' 'b'");
	assert_string_equal(p.env[0], "A=1");
	assert_string_equal(p.env[1], "WS=/home/me/proj/x");
	assert_string_equal(p.env[2], "B=12");
	assert_null(p.env[3]);
	assert_int_equal(p.n_ports, 1);
	assert_int_equal(p.ports[0], 3000);
	assert_true(p.from_devcontainer && !project_has_wishes(&p));
	assert_int_equal(strv_len(p.left_out), 1); // the other container's port
	project_done(&p);
}

static void what_acts_outside_is_only_named(void **state)
{
	(void)state;
	struct project p = read_one("{\"initializeCommand\": \"touch /x\", \"mounts\": [\"source=/,target=/h\"], \"runArgs\": [\"--privileged\"],"
				    "\"privileged\": true, \"capAdd\": [\"SYS_ADMIN\"], \"postStartCommand\": \"x\", \"build\": {\"dockerfile\": \"D\"},"
				    "\"features\": {\"go\": {}}, \"remoteUser\": \"root\", \"workspaceMount\": \"x\"}", NULL);
	assert_null(p.setup);
	assert_null(p.wishes.mounts);
	static const char *const named[] = {"initializeCommand", "mounts", "runArgs", "privileged", "capAdd", "postStartCommand", "build",
					    "features", "remoteUser", "workspaceMount"};
	for (size_t i = 0; i < countof(named); i++)
		assert_true(has(p.left_out, named[i]));
	project_done(&p);
	p = read_one("{\"mounts\": [], \"privileged\": false, \"runArgs\": [], \"initializeCommand\": \"\"}", NULL);
	assert_null(p.left_out);
	project_done(&p);
}

static void nothing_of_the_host_gets_in(void **state)
{
	(void)state;
	setenv("SECRET", "hunter2", 1);
	struct project p = read_one("{\"containerEnv\": {\"A\": \"x${localEnv:SECRET}y\", \"B\": \"${localEnv:SECRET:def}\", \"C\": \"${localWorkspaceFolder}\","
				    "\"D\": \"${localWorkspaceFolderBasename}\", \"E\": \"${devcontainerId}\", \"F\": \"${unclosed\", \"G\": \"$HOME\","
				    "\"PATH\": \"/x:${containerEnv:PATH}\"}, \"postCreateCommand\": \"echo ${localEnv:SECRET}\"}", NULL);
	assert_string_equal(p.env[0], "A=xy");
	assert_string_equal(p.env[1], "B=def");
	assert_string_equal(p.env[2], "C=");
	assert_string_equal(p.env[3], "D=proj");
	assert_string_equal(p.env[4], "E=");
	assert_string_equal(p.env[5], "F=${unclosed");
	assert_string_equal(p.env[6], "G=$HOME"); // the shell inside may
	assert_null(p.env[7]);
	assert_string_equal(p.setup[0], "echo ");
	assert_true(has(p.left_out, "containerEnv A") && has(p.left_out, "postCreateCommand") && has(p.left_out, "containerEnv PATH"));
	assert_false(has(p.left_out, "hunter2") || has(p.env, "hunter2"));
	project_done(&p);
}

static void where_it_is_seen(void **state)
{
	(void)state;
	static const char text[] = "{\"workspaceFolder\": \"/workspaces/${localWorkspaceFolderBasename}\", \"containerEnv\": {\"W\": \"${containerWorkspaceFolder}\"}}";
	struct project p = read_one(text, NULL);
	assert_string_equal(p.ws_path, "/workspaces/proj");
	assert_string_equal(p.env[0], "W=/workspaces/proj");
	project_done(&p);
	p = read_one(text, "/asked");
	assert_null(p.ws_path);
	assert_string_equal(p.env[0], "W=/asked");
	project_done(&p);
}

static void files_that_say_nothing_or_nonsense(void **state)
{
	(void)state;
	static const char *const wrong[] = {"", "[]", "{", "{\"image\": 1}", "{\"containerEnv\": []}", "{\"containerEnv\": {\"A B\": \"x\"}}",
					    "{\"forwardPorts\": [0]}", "{\"forwardPorts\": 80}", "{\"postCreateCommand\": 7}", "{\"postCreateCommand\": [1]}",
					    "{\"a\": 1, \"a\": 2}", "{'a': 1}"};
	struct project p;
	struct err e;
	for (size_t i = 0; i < countof(wrong); i++)
		if (!devcontainer_parse(wrong[i], strlen(wrong[i]), "/p", NULL, &p, &e))
			fail_msg("taken: %s", wrong[i]);
	p = read_one("\xef\xbb\xbf{}", NULL);
	assert_null(p.image);
	project_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comments_and_commas),
		cmocka_unit_test(a_usual_file),
		cmocka_unit_test(what_acts_outside_is_only_named),
		cmocka_unit_test(nothing_of_the_host_gets_in),
		cmocka_unit_test(where_it_is_seen),
		cmocka_unit_test(files_that_say_nothing_or_nonsense),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
