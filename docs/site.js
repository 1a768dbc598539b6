// What the theme's script makes, for keyboards and screen readers.

/** Code and tables that scroll sideways can be reached by Tab; others are no stop. */
function letKeysScroll() {
  for (const box of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
      if (box.tagName === "DIV") {
        box.setAttribute("role", "group");
        box.setAttribute("aria-label", "Table");
      }
    } else {
      box.removeAttribute("tabindex");
    }
  }
  // The button for copying stands in a nav, which is no place to navigate.
  for (const nav of document.querySelectorAll(".md-code__nav")) nav.setAttribute("role", "presentation");
}

new MutationObserver(letKeysScroll).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", letKeysScroll);
addEventListener("load", letKeysScroll);
letKeysScroll();
