// The scroll position of a list that may be taller than an element can be.
//
// Browsers limit the height of an element to some 17 to 33 million pixels. A taller list gets an element of CAP pixels.
// The first and last EDGE pixels of its scroll bar are exact, and those between stand for more than one pixel each.
// Short movements, by wheel, finger or key, are exact everywhere. `settle` then moves the scroll bar to where it
// belongs.

const CAP = 6_000_000, EDGE = 1_000_000;

export class Scroll {
  constructor(element) {
    this.element = element;
    this.top = 0;         // pixels of the list above the view
    this.height = 0;      // of the list
    this.last = 0;        // scroll bar when last seen
  }

  get view() { return this.element.clientHeight; }
  get shownHeight() { return Math.min(this.height, CAP); }
  get shift() { return this.top - this.element.scrollTop; }  // from places in the list to places in the element

  // Follow the scroll bar. Return whether `shift` has changed.
  follow() {
    const now = this.element.scrollTop, moved = now - this.last, before = this.top - this.last;
    this.last = now;
    this.top = Math.abs(moved) < 2 * this.view && this.height > CAP ? this.clamp(this.top + moved) : this.fromBar(now);
    return this.shift !== before;
  }

  // Go to a place of the list.
  go(top) {
    this.top = this.clamp(top);
    this.element.scrollTop = this.toBar(this.top);
    this.last = this.element.scrollTop;
    if (this.height <= CAP) this.top = this.last;
  }

  // Return whether the scroll bar had to move.
  settle() {
    if (this.height <= CAP || Math.abs(this.toBar(this.top) - this.last) < 1) return false;
    this.go(this.top);
    return true;
  }

  clamp(top) { return Math.max(0, Math.min(top, this.height - this.view)); }

  fromBar(bar) {
    if (this.height <= CAP || bar <= EDGE) return bar;
    if (bar >= CAP - EDGE) return this.height - (CAP - bar);
    return EDGE + (bar - EDGE) * (this.height - 2 * EDGE) / (CAP - 2 * EDGE);
  }

  toBar(top) {
    if (this.height <= CAP || top <= EDGE) return top;
    if (top >= this.height - EDGE) return CAP - (this.height - top);
    return EDGE + (top - EDGE) * (CAP - 2 * EDGE) / (this.height - 2 * EDGE);
  }
}
