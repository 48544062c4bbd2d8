// Readings of the statistics API: panels that show the same period share one call.
import { api, query } from "../api.js";

export class Source {
  constructor() {
    this.round = new Map();
  }

  /** From here on figures are asked for anew. */
  renew() {
    this.round = new Map();
  }

  #get(path, params) {
    const address = `/api/${path}${query(params)}`;
    const { round } = this;
    if (!round.has(address)) {
      const asked = api("GET", address);
      round.set(address, asked);
      // A failure is not kept: whoever asks again, asks the server.
      asked.catch(() => round.delete(address));
    }
    return round.get(address);
  }

  figures({ range, metric = "requests", keys }) {
    const params = { period: range, metric, exclude_deleted: keys === "active", include_latency: true };
    return this.#get("stats", params);
  }

  async series({ range, keys }) {
    return (await this.#get("stats/timeseries", { period: range, exclude_deleted: keys === "active" })).points;
  }

  async shares({ range, metric, keys }) {
    const params = { period: range, metric, exclude_deleted: keys === "active" };
    return (await this.#get("stats/provider-distribution", params)).items;
  }
}
