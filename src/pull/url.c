// SPDX-License-Identifier: Apache-2.0
#include "pull/url.h"

#include "base/mem.h"
#include "base/str.h"
#include "model/imageref.h"
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define URL_MAX 8192 // signed links to stores of blobs are long

void pull_url_done(struct pull_url *u)
{
	free(u->text);
	free(u->origin);
	free(u->host);
	*u = (struct pull_url){0};
}

static char *url_part(CURLU *h, CURLUPart part, unsigned flags)
{
	char *p = NULL;
	if (curl_url_get(h, part, &p, flags))
		return NULL;
	char *copy = xstrdup(p);
	curl_free(p);
	return copy;
}

static int url_read(CURLU *h, struct pull_url *out, struct err *e)
{
	auto_free char *scheme = url_part(h, CURLUPART_SCHEME, 0), *host = url_part(h, CURLUPART_HOST, 0);
	auto_free char *port = url_part(h, CURLUPART_PORT, CURLU_DEFAULT_PORT), *given = url_part(h, CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
	auto_free char *user = url_part(h, CURLUPART_USER, 0), *password = url_part(h, CURLUPART_PASSWORD, 0);
	auto_free char *text = url_part(h, CURLUPART_URL, CURLU_URLENCODE);
	if (!scheme || !host || !*host || !port || !text)
		return err_set(e, ERR_INVALID, "the registry names a malformed URL");
	if (strcasecmp(scheme, "http") && strcasecmp(scheme, "https"))
		return err_set(e, ERR_DENIED, "the registry names a URL that is neither http nor https");
	if (user || password)
		return err_set(e, ERR_DENIED, "the registry names a URL with a user in it");
	for (char *c = host; *c; c++)
		*c = *c >= 'A' && *c <= 'Z' ? (char)(*c | 32) : *c;
	*out = (struct pull_url){
		.text = take(&text),
		.origin = xasprintf("%s://%s:%s", scheme, host, port),
		.host = given ? xasprintf("%s:%s", host, given) : xstrdup(host),
		.https = !strcasecmp(scheme, "https"),
		.local = image_host_is_local(host),
	};
	return 0;
}

int pull_url_parse(const struct pull_url *base, const char *text, struct pull_url *out, struct err *e)
{
	CURLU *h = curl_url();
	int rc = -1;
	if (!h)
		return err_set(e, ERR_SYSTEM, "no memory for a URL");
	if (strlen(text) > URL_MAX)
		err_set(e, ERR_LIMIT, "the registry names a URL of more than %d bytes", URL_MAX);
	else if ((base && curl_url_set(h, CURLUPART_URL, base->text, 0)) || curl_url_set(h, CURLUPART_URL, text, CURLU_NON_SUPPORT_SCHEME))
		err_set(e, ERR_INVALID, "the registry names a malformed URL");
	else
		rc = url_read(h, out, e);
	curl_url_cleanup(h);
	return rc;
}

int pull_url_follows(const struct pull_url *from, const struct pull_url *to, struct err *e)
{
	if (to->local && !from->local)
		return err_set(e, ERR_DENIED, "%.200s leads to this machine (%.200s): refused", from->host, to->host);
	if (to->https)
		return 0;
	if (from->https)
		return err_set(e, ERR_DENIED, "%.200s leads to %.200s without TLS: refused", from->host, to->host);
	if (!to->local && strcmp(from->host, to->host))
		return err_set(e, ERR_DENIED, "%.200s leads to another host without TLS (%.200s): refused", from->host, to->host);
	return 0;
}
