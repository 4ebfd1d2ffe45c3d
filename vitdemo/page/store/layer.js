// The layer of all views: the user's choice, or the layer of the map with the highest mean score.
let chosen = 0; // 0: not chosen
let depth = null; // { name, layers, layer } of a model: number of layers, and the layer to begin with
let isFromUrl = false; // whether the layer is from the URL; the model's own layer then counts as not chosen

export const getChosenLayer = () => chosen;
export const isDepthKnown = ({ model }) => depth?.name === model;

export function setChosenLayer(layer) {
  chosen = layer;
}

export function markLayerFromUrl(isInUrl) {
  isFromUrl = isInUrl;
}

export function setDepth(found) {
  depth = found;
}

export function settleLayer(state) {
  if (isDepthKnown(state)) state.layer = depth.layers ? Math.min(chosen || depth.layer, depth.layers) : null;
}

// Lower a choice above the number of layers. If a URL contains the model's own layer, no layer is chosen, so another
// model begins with its own layer.
export function reviseLayer() {
  if (isFromUrl && chosen === depth.layer) chosen = 0;
  else if (depth.layers) chosen = Math.min(chosen, depth.layers);
  isFromUrl = false;
}
