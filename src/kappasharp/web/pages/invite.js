/** Inviting: a link and a QR code with a role, the links there are, who came by them, and how to take them back. */

/** @import { Invite, Invites, Page, Role } from "./types.js" */
import { copy } from "./clipboard.js";
import { button, el } from "./elements.js";
import { Field, sure } from "./fields.js";
import { at, get, langOf, post, sentence } from "./talk.js";
import { moment, text } from "./texts.js";

/** @type {Role[]} */
const OFFERED = ["voter", "viewer", "owner"];

/** @param {Page} page */
export async function open(page) {
  const study = /** @type {NonNullable<Page["study"]>} */ (page.study);
  const dialog = new Dialog(page, study.id, study.name);
  dialog.draw(await get(at(study.id, "invites")));
  document.body.append(dialog.element);
  dialog.element.showModal();
}

class Dialog {
  /**
   * @param {Page} page
   * @param {string} study
   * @param {string} name
   */
  constructor(page, study, name) {
    this.page = page;
    this.study = study;
    /** @type {string | undefined} */
    this.latest = undefined;
    this.made = el("div", { class: "made", "aria-live": "polite" });
    this.reach = el("p", { class: "note", hidden: true });
    this.list = el("div", {});
    this.fault = el("p", { class: "fault", role: "alert", hidden: true });
    const roles = OFFERED.map((role) => el("label", { class: "kind-row" }, el("input", { type: "radio", name: "role", value: role, checked: role === "voter" }),
      el("span", {}, el("b", {}, text(`role.${role}.name`)), ": ", text(`role.${role}.sentence`))));
    const submit = (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      const role = new FormData(/** @type {HTMLFormElement} */ (event.target)).get("role");
      void this.change("invites", { role });
    };
    this.element = el("dialog", { class: "invite", "aria-labelledby": "invite-title", onclose: () => this.element.remove() },
      el("div", { class: "head" }, el("h2", { id: "invite-title" }, text("invite.title", { name })), button(text("page.close"), () => this.element.close())),
      el("form", { onsubmit: submit }, el("fieldset", {}, el("legend", {}, text("invite.mayDo")), ...roles), el("button", { class: "choice a" }, text("invite.make"))),
      this.fault, this.made, this.reach, this.list);
  }

  /**
   * Have something changed, and show what there is then.
   * @param {string} what
   * @param {object} data
   */
  async change(what, data) {
    this.fault.hidden = true;
    try {
      this.draw(await post(at(this.study, what), data));
    } catch (error) {
      this.fault.replaceChildren(el("span", { lang: langOf(error) }, sentence(error)));
      this.fault.hidden = false;
    }
  }

  /** @param {Invites} found */
  draw(found) {
    const { to_others: toOthers, encrypted } = found.reach;
    const words = toOthers ? (encrypted ? "" : text("invite.plain")) : text("invite.hereOnly");
    this.reach.replaceChildren(...words.split("`").map((one, index) => (index % 2 ? el("code", {}, one) : one)));
    this.reach.hidden = words === "";
    if (found.link !== undefined) {
      this.latest = found.made;
      this.showLink(found.link, String(found.picture));
    } else if (found.invites.find((one) => one.id === this.latest)?.revoked) this.made.replaceChildren();
    this.list.replaceChildren(el("h3", {}, text("invite.links")), found.invites.length
      ? el("ul", { class: "studies" }, ...found.invites.map((one) => this.row(one)))
      : el("p", { class: "quiet" }, text("invite.none")));
  }

  /**
   * @param {string} link
   * @param {string} picture
   */
  showLink(link, picture) {
    const input = el("input", { type: "text", readonly: true, value: link, onfocus: () => input.select() });
    const field = new Field(text("invite.link"), input, { class: "long" });
    const sharing = typeof navigator.share === "function" ? button(text("invite.share"), () => void navigator.share({ url: link }).catch(() => input.focus())) : null;
    this.made.replaceChildren(
      el("img", { class: "code-picture", src: picture, alt: text("invite.code") }),
      el("div", { class: "beside" }, field.element, el("p", { class: "row" }, button(text("invite.copy"), () => void copy(this.page, link, this.element)), sharing), el("p", { class: "quiet" }, text("invite.once"))));
    this.made.scrollIntoView({ block: "nearest" });
  }

  /** @param {Invite} one */
  row(one) {
    const time = moment(one.created, { dateStyle: "medium", timeStyle: "short" });
    const revoke = async () => {
      const words = text(one.own ? "invite.revokeOwn" : "invite.revokeMeans");
      if (await sure(words, text("invite.revoke"), text("page.cancel"), text("invite.revokeAsk", { time }))) await this.change("invites/revoke", { id: one.id });
    };
    const people = one.people.map((person) => el("li", {}, person.name ?? text("role.viewer.name"), " ", this.remove(person.id, person.name)));
    return el("li", { "data-invite": one.id },
      el("div", {}, el("b", {}, text(`role.${one.role}.name`)), " ", el("span", { class: "quiet" }, text("invite.made", { time }), " ",
        one.revoked !== null ? text("invite.revoked") : one.people.length ? text("invite.came", { count: one.people.length }) : text("invite.nobodyCame"))),
      one.revoked === null ? el("span", { class: "row" }, button(text("invite.revoke"), () => void revoke(), { name: text("invite.revokeName", { time }) })) : null,
      people.length ? el("ul", { class: "people" }, ...people) : null);
  }

  /**
   * @param {string} id
   * @param {string | null} name
   */
  remove(id, name) {
    const called = name ?? text("role.viewer.name");
    return button(text("invite.remove"), async () => {
      const words = name === null ? text("invite.removeViewer") : text("invite.removeMeans", { name });
      if (await sure(words, text("invite.remove"), text("page.cancel"), text("invite.removeName", { name: called }))) await this.change("invites/remove", { id });
    }, { kind: "corner", name: text("invite.removeName", { name: called }) });
  }
}
