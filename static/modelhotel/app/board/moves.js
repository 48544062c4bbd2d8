// Moving members, taking a move back, and what somebody else does to the same group meanwhile.
import { toast } from "../toast.js";
import { reorder } from "./drag.js";
import * as rules from "./rules.js";

/** How long "Undo" is offered after a move, in ms. */
const UNDO_MS = 10_000;
const ELSEWHERE = "This group was changed elsewhere";

export class Moves {
  /** *board*: store, view, voice; *list* the element that holds all cards. */
  constructor(board, list) {
    this.board = board;
    this.late = false;
    this.drag = reorder(list, {
      handle: ".mh-handle",
      may: (handle) => board.mayChange && board.cardOf(handle).group.group_enabled,
      lifted: (row, keyboard) => this.#lifted(row, keyboard),
      moved: (row, index) => this.#moved(row, index),
      dropped: (row) => this.#dropped(row),
      cancelled: (row) => this.#cancelled(row),
    });
  }

  /** The card of the lifted row, or null. */
  get card() {
    const row = this.drag.lifted();
    return row ? this.board.cardOf(row) : null;
  }

  /** The list of groups is to be drawn anew. False: later, it would tear a lifted row out. */
  mayDraw() {
    const { card } = this;
    if (card && !this.board.store.get(card.id)) {
      toast(`hotel/${card.group.display_model} was deleted elsewhere`, "warning");
      this.drag.cancel();
    }
    this.late = this.card !== null;
    return !this.late;
  }

  /** Somebody else changed a group. Nothing of ours is lost in silence: neither a drag nor a finished edit. */
  foreign(id, fresh, mine) {
    const { board } = this;
    const card = board.view.cards.get(id);
    if (card && card === this.card) {
      card.waiting = fresh;
      card.say(`${ELSEWHERE} while you move it.`, [["Load the other version", () => this.#loadOther(card)]]);
      board.say(`${ELSEWHERE}. Drop to keep your order, Escape to see the other version.`);
      return;
    }
    board.store.accept(fresh);
    if (!card) return;
    this.forgetUndo(card);
    if (!mine) return;
    card.say(`${ELSEWHERE}, over your last change.`, [
      ["Restore mine", () => this.#restore(card, this.#fitting(fresh, mine))],
      ["Keep theirs", () => card.say()],
    ]);
  }

  // A patch of ours for the members the group has now.
  #fitting(group, patch) {
    if (!patch.priority_order) return patch;
    return { ...patch, priority_order: rules.orderOf(rules.reordered(group, patch.priority_order)) };
  }

  #restore(card, patch) {
    this.quiet(card);
    card.title.focus({ preventScroll: true });
    return this.board.save(card.id, patch);
  }

  #loadOther(card) {
    const handle = this.drag.lifted()?.querySelector(".mh-handle");
    this.drag.cancel();
    handle?.focus();
    card.say();
  }

  #name(card, row) {
    return rules.label(card.rows.get(row.dataset.id).entry);
  }

  #lifted(row, keyboard) {
    const { card } = this;
    this.forgetUndo(card);
    card.element.classList.add("mh-lifting");
    const place = `position ${card.order().indexOf(row.dataset.id) + 1} of ${card.order().length}`;
    const help = keyboard ? " Arrow keys move it, Space drops it, Escape puts it back." : "";
    this.board.say(`${this.#name(card, row)} lifted, ${place}.${help}`);
  }

  #moved(row, index) {
    const { card } = this;
    card.renumber();
    this.board.say(`${this.#name(card, row)}, position ${index + 1} of ${card.order().length}.`);
  }

  // What waited for the end of the drag: {card, other}, *other* the version of somebody else or null.
  #ended(row) {
    const card = this.board.cardOf(row);
    card.element.classList.remove("mh-lifting");
    const other = card.waiting;
    card.waiting = null;
    return { card, other };
  }

  #dropped(row) {
    const { card, other } = this.#ended(row);
    const order = card.order();
    const was = rules.orderOf(card.group);
    this.board.say(`${this.#name(card, row)} dropped at position ${order.indexOf(row.dataset.id) + 1} of ${order.length}.`);
    if (String(order) === String(was)) this.#take(card, other);
    else {
      // Its other changes, and members that came or went, are kept.
      if (other) this.board.store.accept(other);
      this.#order(card, order, was, other);
    }
    if (this.late) this.board.listed();
  }

  #cancelled(row) {
    const { card, other } = this.#ended(row);
    this.board.say(`${this.#name(card, row)} put back.`);
    this.#take(card, other);
    if (this.late) this.board.listed();
  }

  #take(card, other) {
    if (other) {
      card.say();
      this.board.store.accept(other);
    } else if (this.board.store.get(card.id)) card.show(this.board.store.get(card.id));
  }

  /** One place up (-1) or down (1) without a drag. */
  step(card, uuid, by) {
    const was = rules.orderOf(card.group);
    const at = was.indexOf(uuid);
    const order = was.filter((id) => id !== uuid);
    order.splice(at + by, 0, uuid);
    this.#order(card, order, was, null);
    this.board.say(`${rules.label(card.rows.get(uuid).entry)}, position ${at + by + 1} of ${order.length}.`);
  }

  #order(card, order, was, other) {
    const theirs = other && rules.orderOf(other);
    const wanted = rules.orderOf(rules.reordered(this.board.store.get(card.id), order));
    this.board.save(card.id, { priority_order: wanted });
    if (theirs && String(theirs) !== String(wanted)) {
      card.say(`${ELSEWHERE} meanwhile; your order was saved over it.`, [
        ["Use the other order", () => this.#back(card, theirs)],
        ["Keep mine", () => card.say()],
      ]);
    } else this.#offerUndo(card, was);
  }

  #offerUndo(card, was) {
    clearTimeout(card.undo);
    card.say("Order changed.", [["Undo", () => this.#back(card, was)]]);
    card.undo = setTimeout(() => this.forgetUndo(card), UNDO_MS);
  }

  forgetUndo(card) {
    if (card.undo) card.say();
    clearTimeout(card.undo);
    card.undo = 0;
  }

  /** Takes the card's bar away, whatever it says. */
  quiet(card) {
    clearTimeout(card.undo);
    card.undo = 0;
    card.say();
  }

  #back(card, order) {
    this.quiet(card);
    this.board.say("Order put back.");
    card.title.focus({ preventScroll: true });
    const wanted = rules.orderOf(rules.reordered(this.board.store.get(card.id), order));
    return this.board.save(card.id, { priority_order: wanted });
  }
}
