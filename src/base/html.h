#pragma once

struct buf;

/* html - what our reports share: pages of one file, that load nothing. */

/* A text from elsewhere, in a page or in an attribute. */
void html_text(struct buf *b, const char *s);

/* A style sheet: cards, tables, keys of charts, light and dark; the shares of
 * time have the colours --used, --free, --frag and --waste.
 */
extern const char html_style[];
