// SPDX-License-Identifier: Apache-2.0
// What the preview says itself: plain text, or a page that can do nothing, or JSON in E2B's form.
#include "api/preview_int.h"

#include "api/refused.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include <assert.h>
#include <string.h>

static const struct {
	int status;
	const char *reason, *title;
} pages[] = {
	[PAGE_MALFORMED] = {400, "Bad Request", "This request can not be passed on"},
	[PAGE_MISDIRECTED] = {421, "Misdirected Request", "This is not the address of a preview"},
	[PAGE_UNKNOWN] = {404, "Not Found", "There is no such sandbox"},
	[PAGE_UNAUTHORIZED] = {401, "Unauthorized", "A link or a token is needed"},
	[PAGE_FORBIDDEN] = {403, "Forbidden", "This is not allowed"},
	[PAGE_FOREIGN] = {403, "Forbidden", "Another page may not use this preview"},
	[PAGE_CLOSED] = {502, "Bad Gateway", "Nothing listens on this port"},
	[PAGE_BROKEN] = {502, "Bad Gateway", "The server in the sandbox gave no proper answer"},
	[PAGE_UNAVAILABLE] = {503, "Service Unavailable", "The sandbox can not be reached now"},
};
static_assert(countof(pages) == PAGES, "one line each");

static void escaped(struct buf *b, const char *s)
{
	for (; *s; s++) {
		const char *as = *s == '<' ? "&lt;" : *s == '>' ? "&gt;" : *s == '&' ? "&amp;" : *s == '"' ? "&quot;" : *s == '\'' ? "&#39;" : NULL;
		if (as)
			buf_str(b, as);
		else
			buf_byte(b, *s);
	}
}

struct open_ports {
	struct buf *b;
	int n;
};

static void name_port(void *ctx, const struct port_row *p)
{
	struct open_ports *o = ctx;
	buf_fmt(o->b, o->n++ ? ", %u" : "%u", p->port);
	if (p->program && *p->program)
		buf_fmt(o->b, " (%s)", p->program);
}

// What to do next, in words.
static void advise(struct visit *v, enum page page, struct buf *b)
{
	const struct preview_target *t = &v->target;
	struct open_ports o = {.b = b};
	switch (page) {
	case PAGE_UNAUTHORIZED:
		buf_fmt(b, "`skep preview %s %u` prints a link that opens it for a while. Programs send a token: Authorization: Bearer skep_… "
			"(`skep token new --scope read --on %s`). A link that worked before has expired.", t->sandbox, t->port, t->sandbox);
		break;
	case PAGE_CLOSED:
		buf_str(b, "Open ports of the sandbox: ");
		engine_ports(v->p->engine, v->sandbox, name_port, &o);
		buf_str(b, o.n ? ". A server that binds 127.0.0.1 is reached too." : "none. Start a server in it, then load this page again.");
		break;
	case PAGE_UNKNOWN:
		buf_str(b, "It was removed, or the address is misspelt. `skep ps` lists the sandboxes there are.");
		break;
	case PAGE_BROKEN:
		buf_str(b, "Is it an HTTP server? `skep logs` shows what it printed.");
		break;
	case PAGE_FORBIDDEN:
		buf_str(b, "Ports of this sandbox are open only to who sends its traffic access token.");
		break;
	case PAGE_FOREIGN:
		buf_str(b, "The request came from a page of another origin, and only a link may be followed from there. Open the preview itself. "
			"Programs send a token: Authorization: Bearer skep_…");
		break;
	case PAGE_MISDIRECTED:
		buf_fmt(b, "Links are good under %s only. `skep serve --public-url` names another host.", v->conn->listener->hosts[0] ?
			v->conn->listener->hosts[0] : "localhost");
		break;
	case PAGE_MALFORMED:
	case PAGE_UNAVAILABLE:
	case PAGES:
		break;
	}
}

static void put_head(struct buf *out, int status, const char *reason, const char *type, size_t length)
{
	buf_fmt(out, "HTTP/1.1 %d %s\r\nContent-Type: %s; charset=utf-8\r\nContent-Length: %zu\r\n", status, reason, type, length);
	buf_str(out, "Cache-Control: no-store\r\nContent-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n"
		     "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n");
	if (status == 401)
		buf_str(out, "WWW-Authenticate: Bearer realm=\"skep\"\r\n");
	buf_str(out, "\r\n");
}

static void put_html(struct buf *b, const char *title, const char *detail, const char *advice)
{
	buf_str(b, "<!doctype html><html lang=en><meta charset=utf-8><title>");
	escaped(b, title);
	buf_str(b, "</title><h1>");
	escaped(b, title);
	buf_str(b, "</h1>");
	if (detail && *detail) {
		buf_str(b, "<p>");
		escaped(b, detail);
	}
	if (*advice) {
		buf_str(b, "<p>");
		escaped(b, advice);
	}
	buf_str(b, "\n");
}

static int e2b_status(enum page page)
{
	return page == PAGE_UNKNOWN || page == PAGE_UNAVAILABLE ? 502 : page == PAGE_UNAUTHORIZED ? 403 : pages[page].status;
}

static void put_e2b(struct buf *b, const struct visit *v, enum page page)
{
	struct jsonw w = {.b = b};
	jw_open(&w, '{');
	jw_kstr(&w, "sandboxId", v->target.sandbox);
	jw_kstr(&w, "message", page == PAGE_UNKNOWN ? "The sandbox was not found" :
			       page == PAGE_CLOSED ? "The sandbox is running but port is not open" : pages[page].title);
	if (page == PAGE_CLOSED)
		jw_ku64(&w, "port", v->target.port);
	jw_ku64(&w, "code", (uint64_t)e2b_status(page));
	jw_close(&w, '}');
}

static void note_refusal(struct visit *v, enum page page)
{
	auto_free char *path = xasprintf("/preview/%s/%u", v->target.sandbox, v->target.port);
	if (page == PAGE_UNAUTHORIZED || page == PAGE_FORBIDDEN || page == PAGE_FOREIGN)
		refused(v->p->loop, v->p->engine, &(struct refusal){.status = pages[page].status, .surface = "preview", .why = pages[page].title,
			.who = "", .path = str_of(path), .peer = &v->conn->peer});
}

void visit_page(struct visit *v, enum page page, const char *detail)
{
	auto_buf struct buf advice = BUF_INIT(8192), body = BUF_INIT(64 << 10), out = BUF_INIT(128 << 10);
	const char *title = pages[page].title;
	int status = v->e2b ? e2b_status(page) : pages[page].status;
	const char *reason = status == 502 ? "Bad Gateway" : status == 403 ? "Forbidden" : pages[page].reason;
	note_refusal(v, page);
	advise(v, page, &advice);
	if (v->e2b && v->target.sandbox[0] && !v->html) {
		put_e2b(&body, v, page);
		put_head(&out, status, reason, "application/json", body.n);
	} else if (v->html) {
		put_html(&body, title, detail, buf_cstr(&advice));
		put_head(&out, status, reason, "text/html", body.n);
	} else {
		buf_fmt(&body, "%s%s%s\n%s%s", title, detail && *detail ? ": " : "", detail ? detail : "", buf_cstr(&advice), advice.n ? "\n" : "");
		put_head(&out, status, reason, "text/plain", body.n);
	}
	buf_add(&out, body.p, body.n);
	visit_say(v, &out);
}

void page_redirect(struct buf *out, const char *location, const char *cookie)
{
	buf_fmt(out, "HTTP/1.1 307 Temporary Redirect\r\nLocation: %s\r\nContent-Length: 0\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n",
		location);
	if (cookie)
		buf_fmt(out, "Set-Cookie: %s\r\n", cookie);
	buf_str(out, "Connection: close\r\n\r\n");
}

// A browser that came here from another site sends no SameSite=Strict cookie, not even after a redirect; from this page it does.
void page_bounce(struct buf *out, const char *location, const char *cookie)
{
	buf_fmt(out, "HTTP/1.1 200 OK\r\nRefresh: 0;url=%s\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 0\r\nCache-Control: no-store\r\n"
		"Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\nReferrer-Policy: no-referrer\r\n", location);
	if (cookie)
		buf_fmt(out, "Set-Cookie: %s\r\n", cookie);
	buf_str(out, "Connection: close\r\n\r\n");
}
