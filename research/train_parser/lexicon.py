"""Words of the template grammar, typical of museum descriptions."""

from __future__ import annotations

PEOPLE = """man woman boy girl child soldier sailor farmer shepherd king queen nun monk dancer
musician rider fisherman servant peasant couple person infant baby priest angel saint hunter
painter merchant sitter lady gentleman bride youth maid vendor butcher cook knight beggar
traveler laborer worker guard toddler nurse acrobat clown judge baker weaver potter""".split()
PEOPLE_PLURAL = """men women boys girls children soldiers sailors farmers people figures angels
musicians riders workers dancers passersby peasants onlookers spectators couples servants
nuns monks fishermen shepherds swimmers bathers""".split()
ANIMALS = """horse donkey dog cat cow goat sheep bird parrot lamb ox rabbit swan hound deer
owl monkey peacock pony rooster hen goose mule snake fox bull spaniel dove greyhound""".split()
CLOTHES = """dress shawl smock coat jacket cloak robe gown hat bonnet cap apron skirt shirt
vest turban scarf veil tunic cape ruff collar sash kimono uniform cravat hood belt stocking
waistcoat headscarf petticoat crown helmet necklace bodice blouse sweater suit ribbon""".split()
CLOTHES_PLURAL = """gloves boots shoes trousers breeches stockings sandals sleeves earrings
pearls clothes garments ruffles robes slippers leggings spectacles glasses""".split()
BODY = """head hand arm face shoulder back hair chin neck leg knee chest foot cheek forehead
body elbow wrist lap hip waist brow mouth nose thumb palm finger torso jaw""".split()
BODY_PLURAL = """hands arms eyes legs lips feet shoulders cheeks knees fingers eyebrows brows
fists wings ears eyelids toes""".split()
THINGS = """table chair window door basket book umbrella broom jug bowl vase candle mirror
lantern ladder boat cart wagon barrel bench bed curtain carpet letter violin guitar piano
sword staff spear knife plate glass cup pitcher pot kettle rug stool ship sail bridge rope
flag lamp clock globe skull pipe fan cane stick drum flute wheel net bucket oar plow trumpet
banner sheet cloth cushion pillow tray bottle loaf lemon pear fish shell scroll cradle barrow
altar column statue fountain fireplace staircase painting portrait box trunk key easel palette
crate sack bell tent hammock anchor mast lute spoon blanket bouquet saddle whip""".split()
THINGS_PLURAL = """apples flowers books boats houses trees stalls barrels baskets cabbages oranges
lemons grapes roses lilies candles chairs windows buildings towers chimneys columns clouds
mountains hills rocks waves stars leaves branches steps tiles bricks curtains flags sails ropes
oars plates bottles tools fish birds lanterns stones shrubs bushes reeds fields roofs shutters
awnings boulders logs cliffs puddles ripples tulips pears papers masts tents coins onions
peonies petals weeds vines arches panes ladders crates nets balconies lamps posts beams""".split()
PLACES = """square street field garden room beach harbor river road path meadow forest valley
village town church cottage kitchen courtyard balcony terrace shore sea lake pond hillside
mountain sky horizon bay canal alley doorway hall chapel barn mill castle tower wall fence
landscape interior clearing cliff hill orchard stable studio workshop porch plaza riverbank
dock pier bank lawn promenade cafe theater stage market cabin island waterfall stream""".split()
REGIONS = """foreground background distance center middle corner shade shadows""".split()
PARTS = """edge top bottom side rim corner end surface base front handle""".split()
COLORS = """red blue green yellow white black brown gray grey pink purple orange crimson
scarlet gold golden silver lilac violet beige cream teal turquoise indigo ochre tan maroon
navy ivory azure emerald mauve rust burgundy charcoal peach cobalt lavender""".split()
SHADES = "pale dark light bright deep soft dull rich vivid muted".split()
OBJECT_COLORS = """mustard plum peanut sand ice lemon slate butter brick moss coral wine rose
olive honey cherry straw copper smoke chocolate mint blood snow sky lime rust steel ash
sapphire apricot caramel flame mahogany""".split()
ADJECTIVES = """tall small large narrow wide young old elderly bare broken wooden round
square long short thin heavy low high empty open closed rough smooth bright stormy calm sunny
rainy cloudy misty plain ornate delicate loose stiff steep flat curved pointed oval tiny huge
massive slender stout barefoot bald bearded muscular pregnant stone marble bronze metal silk
velvet lace wool woolen linen straw leather glass rectangular diagonal vertical horizontal
dim faint hazy crisp thick sheer shiny glossy dry wet muddy dusty snowy leafless leafy lush
verdant grassy rocky choppy nude blond brunette curly wavy straight shaggy distant nearby
ghostly sturdy simple elegant shallow""".split()
PARTICIPLES = """striped cobbled folded carved painted tiled thatched feathered pleated torn
faded weathered fringed embroidered gilded framed patterned rumpled tied clasped woven
polished raised crossed closed parted rounded lowered outstretched cropped quilted wrinkled
ruffled gathered arched shuttered paved flowered covered draped plowed checked upturned
hunched bowed clenched dappled textured shadowed""".split()
ACTIVE = """sagging crashing flowing hanging towering sloping glowing burning sleeping falling
billowing winding standing kneeling glistening sparkling rolling swirling blazing dancing
crumbling rising setting shining overlapping leaning twisting rearing grazing churning
drooping gleaming trailing fluttering""".split()
TRANSITIVE = """have have hold wear carry lift push pull drag clutch grip face play read raise
cover frame fill line watch grasp cradle offer tend sweep pour mend hoist
lower embrace support touch span cross surround enclose flank overlap guide peel
balance cast block echo strum drape shoulder point crown follow lead feed milk
brandish scatter sell gather shelter obscure reveal show""".split()
INTRANSITIVE = """stand sit lean kneel lie rest rise float drift hang look gaze stare
glance walk run ride stretch sleep bend crouch point rear graze wait perch climb fall
curl wind extend recede dance row emerge tumble spill sail hover gather sprawl recline
peer peek loom dissolve fade swirl glow flow smile turn cluster grow step slope march stoop
flutter billow ripple curve taper huddle slump disappear""".split()
RANKS = "other first second third last next same whole entire opposite".split()
POST_PARTICIPLES = """dressed wrapped seated draped harnessed tied hitched covered framed
surrounded lined topped crowned trimmed decorated piled loaded perched painted filled
fastened propped stacked gathered strewn carved lit outlined bathed clad folded mounted
moored tethered planted scattered clustered positioned balanced cropped nestled dotted tucked
pinned buttoned edged flanked shrouded silhouetted tinged streaked speckled shown turned angled
seen tilted cut""".split()
PREPOSITIONS = """in on under over near behind beneath above beside below along against across
beyond around between among toward through inside outside by within amid atop
onto alongside before
past""".split()
VERB_PREPOSITIONS = """on in over against toward across beside at under along behind into
through near from beneath onto down up around above past""".split()
ADVERBS = """slightly nearly almost loosely softly thickly gently directly sharply tightly
closely deeply faintly barely delicately lightly roughly densely brightly heavily""".split()
AMOUNTS = "row group line pile cluster pair bunch stack patch strip band bundle sliver".split()
NUMBERS = "two three four five six seven eight ten".split()
STROKES = "strokes dabs touches layers streaks swirls areas shades tones washes patches".split()
NAMES = """Vermeer Pissarro Rembrandt Monet Cassatt Whistler Homer Constable Turner
Copley Degas Manet Vigee Rubens Titian Giorgione Gilbert Stuart Thomas Cole Winslow Anna
Judith Leyster Mary Paul Augustus Frans Hals Jan Claude""".split()
